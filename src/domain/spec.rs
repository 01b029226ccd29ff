//! The assignment of an agent: Markdown text with four well-known sections.

use thiserror::Error;

/// The largest accepted spec or task text.
pub const MAX_BYTES: usize = 256 * 1024;

/// The headings of a good spec; a missing one causes a warning, never an error.
pub const SECTIONS: [&str; 4] = ["Objective", "Context", "Constraints", "Deliverables"];

/// Text that is not blank and not too large: a spec or a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec(String);

#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    #[error("the text is blank")]
    Blank,
    #[error("the text has {0} bytes; at most {MAX_BYTES} are allowed")]
    TooLong(usize),
}

/// Which of the well-known sections a spec has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sections {
    pub found: Vec<&'static str>,
    /// Empty for a spec of one paragraph, which needs no sections.
    pub missing: Vec<&'static str>,
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

    pub fn sections(&self) -> Sections {
        Sections::of(&self.0)
    }
}

impl Sections {
    /// Both in the order of [`SECTIONS`].
    pub fn of(spec: &str) -> Self {
        let headings = headings_in(spec);
        let is_there = |known: &str| headings.iter().any(|heading| known.eq_ignore_ascii_case(heading));
        let (found, missing) = SECTIONS.into_iter().partition(|known| is_there(known));
        if headings.is_empty() && is_one_paragraph(spec) {
            return Self { found, missing: Vec::new() };
        }
        Self { found, missing }
    }
}

fn is_one_paragraph(text: &str) -> bool {
    text.trim().lines().all(|line| !line.trim().is_empty())
}

/// Headings that are not part of a code block.
fn headings_in(text: &str) -> Vec<&str> {
    let mut in_fence = false;
    let mut headings = Vec::new();
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        headings.extend(heading_of(line).filter(|_| !in_fence));
    }
    headings
}

/// The text of an ATX heading of level one to three; deeper ones belong to their section.
fn heading_of(line: &str) -> Option<&str> {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    let rest = &line[level..];
    let is_heading = (1..=3).contains(&level) && (rest.is_empty() || rest.starts_with(' '));
    is_heading.then(|| rest.trim().trim_end_matches('#').trim_end().trim_end_matches(':'))
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
        let expected =
            Sections { found: vec!["Objective", "Deliverables"], missing: vec!["Context", "Constraints"] };
        assert_eq!(spec.sections(), expected);
    }

    #[test]
    fn one_paragraph_lacks_nothing_and_two_lack_every_section() {
        assert_eq!(Sections::of(" \nFix the login bug,\nand say how.\n"), Sections::default());
        assert_eq!(Sections::of("Fix it.\n \nThen say how.").missing, SECTIONS);
        assert_eq!(Sections::of("# Login\nFix it.").missing, SECTIONS);
    }
}
