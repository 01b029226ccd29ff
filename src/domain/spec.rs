//! What an agent is asked to do: Markdown text with four well-known sections.

use thiserror::Error;

/// The largest spec or task text taken.
pub const MAX_BYTES: usize = 256 * 1024;

/// The headings a good spec has; a missing one is a warning, never an error.
pub const SECTIONS: [&str; 4] = ["Objective", "Context", "Constraints", "Deliverables"];

/// Text that is not blank and not too large: a spec or a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec(String);

#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    #[error("the text is blank")]
    Blank,
    #[error("the text has {0} bytes; at most {MAX_BYTES} are taken")]
    TooLong(usize),
}

/// One of the well-known sections found in a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub heading: &'static str,
    pub text: String,
}

impl Spec {
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if text.trim().is_empty() {
            return Err(SpecError::Blank);
        }
        if text.len() > MAX_BYTES {
            return Err(SpecError::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The well-known sections in the order of [`SECTIONS`].
    pub fn sections(&self) -> Vec<Section> {
        let found = sections_in(&self.0);
        SECTIONS
            .iter()
            .filter_map(|heading| found.iter().find(|section| section.heading == *heading).cloned())
            .collect()
    }

    /// Headings that are not there.
    pub fn missing_sections(&self) -> Vec<&'static str> {
        let found = self.sections();
        SECTIONS.into_iter().filter(|heading| found.iter().all(|s| s.heading != *heading)).collect()
    }
}

fn sections_in(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut open: Option<Section> = None;
    let mut in_fence = false;
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        match heading_of(line).filter(|_| !in_fence) {
            Some(heading) => {
                sections.extend(open.take());
                open = known(heading).map(|heading| Section { heading, text: String::new() });
            }
            None => {
                if let Some(section) = &mut open {
                    section.text.push_str(line);
                    section.text.push('\n');
                }
            }
        }
    }
    sections.extend(open);
    for section in &mut sections {
        section.text = section.text.trim().to_owned();
    }
    sections
}

/// The text of an ATX heading of level one to three; deeper ones belong to their section.
fn heading_of(line: &str) -> Option<&str> {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    let rest = &line[level..];
    let is_heading = (1..=3).contains(&level) && (rest.is_empty() || rest.starts_with(' '));
    is_heading.then(|| rest.trim().trim_end_matches('#').trim_end().trim_end_matches(':'))
}

fn known(heading: &str) -> Option<&'static str> {
    SECTIONS.into_iter().find(|known| known.eq_ignore_ascii_case(heading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_and_oversized_text_is_refused() {
        assert_eq!(Spec::parse(" \n\t"), Err(SpecError::Blank));
        assert_eq!(Spec::parse(&"x".repeat(MAX_BYTES + 1)), Err(SpecError::TooLong(MAX_BYTES + 1)));
    }

    #[test]
    fn sections_are_found_by_heading_without_case_and_missing_ones_named() {
        let spec = Spec::parse(
            "# Add login\nintro\n## objective:\nUsers log in.\n\n### Notes\n```\n# Context\n```\n## Deliverables ##\n- a PR\n#### detail\nmore",
        )
        .unwrap();
        assert_eq!(
            spec.sections(),
            vec![
                Section { heading: "Objective", text: "Users log in.".into() },
                Section { heading: "Deliverables", text: "- a PR\n#### detail\nmore".into() },
            ]
        );
        assert_eq!(spec.missing_sections(), vec!["Context", "Constraints"]);
    }
}
