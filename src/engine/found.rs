//! Which agent CLIs this machine has, and which engine an `auto` therefore means.

use std::path::PathBuf;

use super::EngineWord;

/// The CLIs looked for, in the order they are preferred; each word is also the program's name.
pub(super) const CLIS: [EngineWord; 2] = [EngineWord::Claude, EngineWord::Codex];

/// A CLI that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub word: EngineWord,
    pub program: PathBuf,
}

/// The names of the programs looked for.
pub fn programs() -> impl Iterator<Item = &'static str> {
    CLIS.iter().map(|word| word.word())
}

/// All that can be found; how to find a program is the caller's business.
pub fn found(find: impl Fn(&str) -> Option<PathBuf>) -> Vec<Found> {
    CLIS.iter().filter_map(|word| Some(Found { word: *word, program: find(word.word())? })).collect()
}

/// The engine of agents on a machine where these are found: without any of them `auto` means the demo engine, and else
/// it is left to each agent, which asks the programs whether they will do.
pub fn meant(word: EngineWord, found: &[Found]) -> EngineWord {
    match word {
        EngineWord::Auto if found.is_empty() => EngineWord::Demo,
        EngineWord::Auto | EngineWord::Claude | EngineWord::Codex | EngineWord::CursorAgent => word,
        EngineWord::Custom | EngineWord::Demo => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_among(programs: &[&str]) -> Vec<Found> {
        found(|name| programs.contains(&name).then(|| PathBuf::from("/bin").join(name)))
    }

    #[test]
    fn auto_is_left_to_the_agents_unless_there_is_nothing_to_choose_from() {
        let both = found_among(&["codex", "other", "claude"]);
        let program = |word: EngineWord| Found { word, program: PathBuf::from("/bin").join(word.word()) };
        assert_eq!(both, [program(EngineWord::Claude), program(EngineWord::Codex)]);
        assert_eq!(meant(EngineWord::Auto, &both), EngineWord::Auto);
        assert_eq!(meant(EngineWord::Auto, &[]), EngineWord::Demo);
        for word in EngineWord::ALL.iter().filter(|word| **word != EngineWord::Auto) {
            assert_eq!((meant(*word, &both), meant(*word, &[])), (*word, *word));
        }
    }
}
