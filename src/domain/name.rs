//! Agent names: valid Coder workspace names, compared case-insensitively, or generated ones.

use std::fmt;
use std::path::Path;

use names::{Generator, Name};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The longest name that a caller may give; Coder's own limit.
pub const MAX_GIVEN: usize = 32;
/// The longest generated name, so that tables stay narrow.
pub const MAX_GENERATED: usize = 20;

/// The prefix of workspaces for squads.
const RUNS_PREFIX: &str = "runs-";
const RESERVED: [&str; 2] = ["new", "create"];
const PLAIN_TRIES: usize = 64;
const NUMBERED_TRIES: usize = 256;

/// A valid agent name in its original spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentName(String);

#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    #[error("a name must have 1 to {MAX_GIVEN} characters")]
    Length,
    #[error("a name may contain only letters, digits and single inner hyphens")]
    Characters,
    #[error("'{0}' is reserved")]
    Reserved(String),
}

impl AgentName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.chars().count() > MAX_GIVEN {
            return Err(NameError::Length);
        }
        let well_formed =
            text.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()));
        if !well_formed {
            return Err(NameError::Characters);
        }
        if RESERVED.contains(&text) {
            return Err(NameError::Reserved(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    /// A memorable free name: plain first, then numbered, then one that cannot collide.
    pub fn generate(is_taken: impl Fn(&AgentName) -> bool) -> Self {
        let plain = Generator::with_naming(Name::Plain).take(PLAIN_TRIES);
        let numbered = Generator::with_naming(Name::Numbered).take(NUMBERED_TRIES);
        plain
            .chain(numbered)
            .filter(|name| name.len() <= MAX_GENERATED)
            .filter_map(|name| Self::parse(&name).ok())
            .find(|name| !is_taken(name))
            .unwrap_or_else(|| Self(format!("agent-{}", short_random())))
    }

    /// The workspace name of a directory below the directory of all workspaces. A process can put anything into its
    /// environment, so only valid workspace names are accepted.
    pub fn of_directory(workspaces: &Path, directory: &str) -> Option<Self> {
        let name = Path::new(directory).strip_prefix(workspaces).ok()?.components().next()?;
        Self::parse(name.as_os_str().to_str()?).ok()
    }

    /// The name of the workspace for runs of a project without an agent.
    pub fn of_runs(project: &str) -> Self {
        let parts = project.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        let mut name = format!("{RUNS_PREFIX}{}", parts.collect::<Vec<_>>().join("-"));
        name.truncate(MAX_GIVEN);
        Self(name.trim_end_matches('-').to_owned())
    }

    /// The same for one of several directories; deterministic per directory.
    pub fn of_runs_in(project: &str, directory: &str) -> Self {
        let digest = Sha256::digest(directory);
        let mark: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let mut name = Self::of_runs(project).0;
        name.truncate(MAX_GIVEN - mark.len() - 1);
        Self(format!("{}-{mark}", name.trim_end_matches('-')))
    }

    /// Whether it is a workspace for runs. Callers may not give agents such names.
    pub fn is_of_runs(&self) -> bool {
        self.key().starts_with(RUNS_PREFIX)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form under which names are unique and looked up.
    pub fn key(&self) -> String {
        name_key(&self.0)
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lookups of agents, projects and roles ignore case and surrounding blanks.
pub fn name_key(text: &str) -> String {
    text.trim().to_lowercase()
}

fn short_random() -> String {
    let mut digits = uuid::Uuid::new_v4().simple().to_string();
    digits.truncate(12);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_name_that_a_workspace_can_have_is_taken_from_a_directory() {
        let named = |value: &str| {
            AgentName::of_directory(Path::new("/data/workspaces"), value).map(|name| name.to_string())
        };
        assert_eq!(named("/data/workspaces/heron/fleet"), Some("heron".to_owned()));
        let long = format!("/data/workspaces/{}/fleet", "x".repeat(200));
        for value in
            ["/data/workspaces/a b/fleet", "/data/workspaces/x'\n/fleet", "/elsewhere/heron/fleet", &long]
        {
            assert_eq!(named(value), None, "{value}");
        }
    }

    #[test]
    fn names_follow_coders_rule() {
        for good in ["a", "agent-one", "A1-b2-C3", &"x".repeat(32)] {
            assert_eq!(AgentName::parse(good).map(|n| n.0), Ok(good.to_owned()));
        }
        assert_eq!(AgentName::parse(""), Err(NameError::Length));
        assert_eq!(AgentName::parse(&"x".repeat(33)), Err(NameError::Length));
        for bad in ["-a", "a-", "a--b", "a_b", "a.b", "a b", "ünï"] {
            assert_eq!(AgentName::parse(bad), Err(NameError::Characters), "{bad}");
        }
        assert_eq!(AgentName::parse("new"), Err(NameError::Reserved("new".into())));
    }

    #[test]
    fn the_runs_of_a_project_have_a_workspace_that_is_told_from_agents() {
        let names =
            ["here", "My_Project", "", &"long".repeat(9)].map(|project| AgentName::of_runs(project).0);
        assert_eq!(names, ["runs-here", "runs-My-Project", "runs", "runs-longlonglonglonglonglonglon"]);
        assert!(AgentName::of_runs("Here").is_of_runs() && !AgentName::parse("runs").unwrap().is_of_runs());
    }

    #[test]
    fn each_directory_of_a_project_has_a_workspace_of_its_own_for_runs() {
        let cases =
            [("here", "/a"), ("here", "/b"), (&"long".repeat(9), "/a"), ("a2345678901234567-b", "/a")];
        let names = cases.map(|(project, directory)| AgentName::of_runs_in(project, directory));
        let expected = [
            "runs-here-6a50dc85",
            "runs-here-9812b0b9",
            "runs-longlonglonglonglo-6a50dc85",
            "runs-a2345678901234567-6a50dc85",
        ];
        assert_eq!(names.each_ref().map(AgentName::as_str), expected);
        for name in names {
            assert_eq!(AgentName::parse(name.as_str()), Ok(name.clone()));
            assert!(name.is_of_runs());
        }
    }

    #[test]
    fn generated_names_avoid_taken_ones_even_when_nearly_all_are_taken() {
        let taken = |name: &AgentName| !name.as_str().starts_with("agent-");
        let name = AgentName::generate(taken);
        assert!(name.as_str().starts_with("agent-"));
        assert!(name.as_str().len() <= MAX_GENERATED);
    }

    proptest! {
        #[test]
        fn a_generated_name_is_valid_short_and_free(n_taken in 0usize..50) {
            let mut taken = std::collections::HashSet::new();
            for _ in 0..n_taken {
                let name = AgentName::generate(|name| taken.contains(&name.key()));
                prop_assert!(name.as_str().len() <= MAX_GENERATED);
                prop_assert_eq!(AgentName::parse(name.as_str()), Ok(name.clone()));
                prop_assert!(taken.insert(name.key()));
            }
        }

        #[test]
        fn parsing_never_panics(text in ".{0,40}") {
            let _unused = AgentName::parse(&text);
        }
    }
}
