//! Reads a role file: YAML front matter between `---` lines, then the prompt.

use serde::Deserialize;

use super::{CatalogError, stem};
use crate::domain::budget::{Budget, Usd};
use crate::domain::role::{Role, RoleKind};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    name: Option<String>,
    display_name: Option<String>,
    description: Option<String>,
    kind: Option<String>,
    max_cost_usd: Option<f64>,
    max_tokens: Option<u64>,
}

pub(super) fn parse(path: &str, text: &str) -> Result<Role, CatalogError> {
    let problem = |problem: String| CatalogError::Content { path: path.to_owned(), problem };
    let (head, prompt) =
        split(text).ok_or_else(|| problem("the front matter has no closing '---' line".into()))?;
    let matter = match head.trim() {
        "" => FrontMatter::default(),
        yaml => serde_saphyr::from_str::<FrontMatter>(yaml).map_err(|error| problem(error.to_string()))?,
    };
    let kind = match matter.kind.as_deref() {
        None => RoleKind::Coding,
        Some(word) => RoleKind::parse(word).ok_or_else(|| problem(unknown_kind(word)))?,
    };
    if prompt.trim().is_empty() {
        return Err(problem("the prompt below the front matter is empty".into()));
    }
    let budget = budget_of(&matter).map_err(|key| problem(format!("{key} must be a positive number")))?;
    let id = stem(path);
    let name = matter.name.unwrap_or_else(|| id.clone());
    Ok(Role {
        display_name: matter.display_name.unwrap_or_else(|| name.clone()),
        description: matter.description.unwrap_or_default(),
        prompt: prompt.trim().to_owned(),
        id,
        name,
        kind,
        budget,
    })
}

/// The budget, or the key with an invalid amount.
fn budget_of(matter: &FrontMatter) -> Result<Budget, &'static str> {
    let max_cost = matter.max_cost_usd.map(|cost| Usd::parse(cost).ok_or("max_cost_usd")).transpose()?;
    match matter.max_tokens {
        Some(0) => Err("max_tokens"),
        max_tokens => Ok(Budget { max_cost, max_tokens }),
    }
}

/// Front matter and body. A file without front matter is all body; front matter without an end is an error.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches('\u{FEFF}');
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Some(("", text));
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn unknown_kind(word: &str) -> String {
    let known: Vec<&str> = RoleKind::ALL.iter().map(|kind| kind.word()).collect();
    format!("kind '{word}' is not one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_its_front_matter_and_its_prompt() {
        let text = "---\nname: Tester\ndescription: Breaks things.\nkind: review\nmax_cost_usd: 2.5\nmax_tokens: 1000\n---\n\nYou test.\n---\nStill prompt.\n";
        let expected = Role {
            id: "qa".into(),
            name: "Tester".into(),
            display_name: "Tester".into(),
            description: "Breaks things.".into(),
            kind: RoleKind::Review,
            budget: Budget { max_cost: Usd::parse(2.5), max_tokens: Some(1_000) },
            prompt: "You test.\n---\nStill prompt.".into(),
        };
        assert_eq!(parse("some/qa.md", text).unwrap(), expected);
    }

    #[test]
    fn a_file_without_front_matter_is_a_coding_role_named_by_its_stem() {
        let role = parse("plain.md", "Just do it.").unwrap();
        assert_eq!(
            (role.name.as_str(), role.kind, role.prompt.as_str()),
            ("plain", RoleKind::Coding, "Just do it.")
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file() {
        let cases = [
            ("---\nname: x\n", "the front matter has no closing '---' line"),
            (
                "---\nkind: boss\n---\nx",
                "kind 'boss' is not one of operator, manager, coding, review, planning",
            ),
            ("---\nmax_cost_usd: -1\n---\nx", "max_cost_usd must be a positive number"),
            ("---\nmax_tokens: 0\n---\nx", "max_tokens must be a positive number"),
            ("---\nname: x\n---\n \n", "the prompt below the front matter is empty"),
        ];
        for (text, problem) in cases {
            assert_eq!(parse("r.md", text).unwrap_err().to_string(), format!("r.md: {problem}"));
        }
        let unknown = parse("r.md", "---\ncolour: red\n---\nx").unwrap_err().to_string();
        assert!(unknown.starts_with("r.md: ") && unknown.contains("colour"), "{unknown}");
    }
}
