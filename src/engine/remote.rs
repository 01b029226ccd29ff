//! Engines by their names alone, for workspaces into which we only send commands.

use std::path::PathBuf;
use std::sync::Arc;

use super::codex::{Codex, Sandbox};
use super::custom::{Custom, shipped};
use super::{Engine, EngineWord, claude, codex, demo};

/// The engine of this word, to be found there by whoever starts it. None for words that name no program.
pub fn by_name(word: EngineWord, own_program: PathBuf) -> Option<Arc<dyn Engine>> {
    match word {
        EngineWord::Claude => Some(Arc::new(claude::Claude { program: PathBuf::from(claude::PROGRAM) })),
        // Its conversations lie where we cannot look, so that its cost is known at the end only.
        EngineWord::Codex => Some(Arc::new(Codex {
            program: PathBuf::from(codex::PROGRAM),
            home: PathBuf::new(),
            sandbox: Sandbox::Workspace,
        })),
        EngineWord::CursorAgent => {
            let templates = shipped(word)?;
            Some(Arc::new(Custom::new(word, templates.run, None).ok()?))
        }
        EngineWord::Demo => Some(Arc::new(demo::Demo { program: own_program })),
        EngineWord::Auto | EngineWord::Custom => None,
    }
}

/// The engine that a command line of ours calls.
pub fn called(argv: &[String]) -> Option<EngineWord> {
    if argv.get(1).is_some_and(|word| word == demo::COMMAND) {
        return Some(EngineWord::Demo);
    }
    EngineWord::parse(argv.first()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_tells_its_engine() {
        let called =
            |words: &[&str]| called(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(called(&["/opt/fleet-mcp", "demo-engine"]), Some(EngineWord::Demo));
        assert_eq!(called(&["claude", "-p"]), Some(EngineWord::Claude));
        assert_eq!(called(&["codex", "exec"]), Some(EngineWord::Codex));
        assert_eq!((called(&["git", "push"]), called(&[])), (None, None));
    }
}
