//! Records which process is the engine, for a cancel that has to end it past an unresponsive runner.
//!
//! One line: the engine's pid and start time, or two dashes, then our own. A pid alone could belong to another
//! process by the time it is read. A cancel that ends the engine appends a line that names it, so that the runner
//! does not take its end for a failure.

use std::path::{Path, PathBuf};

use crate::files::{self, Durability, regular};
use crate::process::ProcessId;

/// Read and appended to by `src/app/agent_app/end.sh`.
const FILE: &str = "engine.pid";

/// The note in an agent's directory. It names the engine until this is dropped.
#[derive(Debug)]
pub(super) struct EngineNote {
    directory: PathBuf,
    engine: String,
}

impl EngineNote {
    pub(super) fn of(directory: &Path, engine: Option<u32>) -> Self {
        let note = Self { directory: directory.to_owned(), engine: engine.map_or_else(no_process, identity) };
        note.leave(&note.engine);
        note
    }

    /// Whether a cancel has ended this engine past the runner.
    pub(super) fn is_ended_by_others(&self) -> bool {
        let lines = regular::text(&self.directory.join(FILE)).unwrap_or_default();
        lines.lines().skip(1).any(|line| line == self.engine)
    }

    /// Without the note a cancel has one step less; a failure delays nothing.
    fn leave(&self, engine: &str) {
        let line = format!("{engine} {}\n", identity(std::process::id()));
        let written = files::replace(&self.directory.join(FILE), line.as_bytes(), Durability::Cached);
        if let Err(error) = written {
            tracing::debug!(%error, "the engine's process cannot be recorded");
        }
    }
}

impl Drop for EngineNote {
    fn drop(&mut self) {
        self.leave(&no_process());
    }
}

fn identity(number: u32) -> String {
    ProcessId::of(number).map_or_else(|_| no_process(), |engine| format!("{number} {}", engine.start_time))
}

fn no_process() -> String {
    "- -".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_the_engine_while_it_runs_and_us_all_the_time() {
        let directory = tempfile::tempdir().unwrap();
        let read = || std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        let own = identity(std::process::id());
        let note = EngineNote::of(directory.path(), Some(std::process::id()));
        assert_eq!(read(), format!("{own} {own}\n"));
        drop(note);
        assert_eq!(read(), format!("- - {own}\n"));
    }

    #[test]
    fn only_a_word_on_this_very_engine_tells_that_others_ended_it() {
        let directory = tempfile::tempdir().unwrap();
        let note = EngineNote::of(directory.path(), Some(std::process::id()));
        let add = |line: &str| {
            let path = directory.path().join(FILE);
            std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + line).unwrap();
        };
        assert!(!note.is_ended_by_others());
        add(&format!("{} 1\n", std::process::id()));
        assert!(!note.is_ended_by_others());
        add(&format!("{}\n", identity(std::process::id())));
        assert!(note.is_ended_by_others());
    }
}
