//! Leaves word which process is the engine, for whoever has to end it when this runner does not listen.
//!
//! One line: the engine's number and start time, or two dashes, then our own. A number alone could belong to another
//! process by the time it is read.

use std::io;
use std::path::{Path, PathBuf};

/// Read by `src/app/agent_app/end.sh`.
const FILE: &str = "engine.pid";
const FRESH: &str = "engine.pid.new";

/// The note in an agent's directory. It names the engine until this is dropped.
#[derive(Debug)]
pub(super) struct Note(PathBuf);

impl Note {
    pub(super) fn of(directory: &Path, engine: Option<u32>) -> Self {
        let note = Self(directory.to_owned());
        note.leave(engine);
        note
    }

    /// Without the note a cancel has one step less; that holds up nothing.
    fn leave(&self, engine: Option<u32>) {
        let line = format!("{} {}\n", engine.map_or_else(nobody, identity), identity(std::process::id()));
        let fresh = self.0.join(FRESH);
        let written = std::fs::write(&fresh, line).and_then(|()| std::fs::rename(&fresh, self.0.join(FILE)));
        if let Err(error) = written {
            tracing::debug!(%error, "nobody will know which process is the engine");
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.leave(None);
    }
}

fn identity(number: u32) -> String {
    began(number).map_or_else(|_| nobody(), |began| format!("{number} {began}"))
}

fn nobody() -> String {
    "- -".to_owned()
}

/// The twentieth field after the name, which is in parentheses and may hold anything.
fn began(number: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat"))?;
    let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    field.ok_or_else(|| io::Error::other("a process without a start time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_the_engine_while_it_runs_and_us_all_the_time() {
        let directory = tempfile::tempdir().unwrap();
        let read = || std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        let own = format!("{} {}", std::process::id(), began(std::process::id()).unwrap());
        let note = Note::of(directory.path(), Some(std::process::id()));
        assert_eq!(read(), format!("{own} {own}\n"));
        drop(note);
        assert_eq!(read(), format!("- - {own}\n"));
    }
}
