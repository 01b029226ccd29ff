//! Agent CLIs installed on this machine, and the engine that `auto` stands for.

use std::path::PathBuf;

use super::EngineWord;

/// The known CLIs in order of preference; each keyword is also the program's name.
pub(super) const CLIS: [EngineWord; 2] = [EngineWord::Claude, EngineWord::Codex];

/// An installed CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCli {
    pub word: EngineWord,
    pub program: PathBuf,
}

pub fn programs() -> impl Iterator<Item = &'static str> {
    CLIS.iter().map(|word| word.word())
}

/// The CLIs that `find` locates.
pub fn find_clis(find: impl Fn(&str) -> Option<PathBuf>) -> Vec<FoundCli> {
    CLIS.iter().filter_map(|word| Some(FoundCli { word: *word, program: find(word.word())? })).collect()
}

/// The engine for a request on a machine with these CLIs. Without any CLI, `auto` is the demo engine; else it stays
/// `auto`, and each agent checks the versions itself.
pub fn resolve_engine(requested: EngineWord, installed: &[FoundCli]) -> EngineWord {
    match requested {
        EngineWord::Auto if installed.is_empty() => EngineWord::Demo,
        EngineWord::Auto | EngineWord::Claude | EngineWord::Codex | EngineWord::CursorAgent => requested,
        EngineWord::Custom | EngineWord::Demo => requested,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_among(programs: &[&str]) -> Vec<FoundCli> {
        find_clis(|name| programs.contains(&name).then(|| PathBuf::from("/bin").join(name)))
    }

    #[test]
    fn auto_is_left_to_the_agents_unless_there_is_nothing_to_choose_from() {
        let both = found_among(&["codex", "other", "claude"]);
        let program = |word: EngineWord| FoundCli { word, program: PathBuf::from("/bin").join(word.word()) };
        assert_eq!(both, [program(EngineWord::Claude), program(EngineWord::Codex)]);
        assert_eq!(resolve_engine(EngineWord::Auto, &both), EngineWord::Auto);
        assert_eq!(resolve_engine(EngineWord::Auto, &[]), EngineWord::Demo);
        for word in EngineWord::ALL.iter().filter(|word| **word != EngineWord::Auto) {
            assert_eq!((resolve_engine(*word, &both), resolve_engine(*word, &[])), (*word, *word));
        }
    }
}
