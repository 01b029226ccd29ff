//! Which agent CLIs this machine has, and which engine an `auto` therefore means.

use std::path::PathBuf;

use super::{WORDS, demo};

/// Means: the first CLI that is there.
pub const AUTO: &str = "auto";

/// The CLIs looked for, in the order they are preferred; each word is also the program's name.
const CLIS: [&str; 2] = ["claude", "codex"];

/// A CLI that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub word: &'static str,
    pub program: PathBuf,
}

/// All that can be found; how to find a program is the caller's business.
pub fn found(find: impl Fn(&str) -> Option<PathBuf>) -> Vec<Found> {
    CLIS.iter().filter_map(|word| Some(Found { word, program: find(word)? })).collect()
}

/// The engine a word means where these are found: for `auto` the first we can drive, else the demo engine.
pub fn meant<'a>(word: &'a str, found: &[Found]) -> &'a str {
    match word {
        AUTO => first_of(&WORDS, found),
        named => named,
    }
}

fn first_of(drivable: &[&str], found: &[Found]) -> &'static str {
    found.iter().map(|found| found.word).find(|word| drivable.contains(word)).unwrap_or(demo::WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_among(programs: &[&str]) -> Vec<Found> {
        found(|name| programs.contains(&name).then(|| PathBuf::from("/bin").join(name)))
    }

    #[test]
    fn auto_means_the_first_cli_there_is_and_the_demo_engine_where_there_is_none() {
        let both = found_among(&["codex", "other", "claude"]);
        let program = |word| Found { word, program: PathBuf::from("/bin").join(word) };
        assert_eq!(both, [program("claude"), program("codex")]);
        let drivable = ["demo", "codex", "claude"];
        assert_eq!(first_of(&drivable, &both), "claude");
        assert_eq!(first_of(&drivable, &both[1..]), "codex");
        assert_eq!(first_of(&drivable, &[]), "demo");
        assert_eq!(first_of(&["demo"], &both), "demo");
        assert_eq!((meant(AUTO, &[]), meant("claude", &[])), ("demo", "claude"));
    }
}
