//! The demo engine's memory of a conversation: its progress in the last message.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SESSION;
use crate::files::{self, Durability};

const FILE: &str = "demo-session.json";

/// The memory of this run; empty if nothing can be stored.
#[derive(Debug, Default)]
pub(super) struct Memory {
    file: Option<MemoryFile>,
}

#[derive(Debug)]
struct MemoryFile {
    directory: PathBuf,
    session: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredProgress {
    session: String,
    #[serde(flatten)]
    progress: Progress,
}

/// How many directives of a message are executed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) message: String,
    pub(super) n_done: usize,
    /// The id of the current directive's effect, so that it is not repeated.
    #[serde(default = "Uuid::now_v7")]
    pub(super) step: Uuid,
}

impl Progress {
    pub(super) fn begin(message: &str) -> Self {
        Self { message: message.to_owned(), n_done: 0, step: Uuid::now_v7() }
    }

    /// Marks the current directive as executed.
    pub(super) fn advance(&mut self) {
        self.n_done += 1;
        self.step = Uuid::now_v7();
    }
}

impl Memory {
    /// Stored in the runner's directory; without a session nothing is stored.
    pub(super) fn of_environment() -> Self {
        let (directory, session) = (std::env::var_os("FLEET_AGENT_DIR"), std::env::var(SESSION).ok());
        let file = directory
            .zip(session)
            .map(|(directory, session)| MemoryFile { directory: directory.into(), session });
        Self { file }
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.file.as_ref().map(|file| file.session.as_str())
    }

    /// The progress in an interrupted message.
    pub(super) fn unfinished(&self) -> Option<Progress> {
        let file = self.file.as_ref()?;
        let text = std::fs::read_to_string(file.directory.join(FILE)).ok()?;
        let stored: StoredProgress = serde_json::from_str(&text).ok()?;
        (stored.session == file.session).then_some(stored.progress)
    }

    pub(super) fn keep(&self, progress: &Progress) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let stored = StoredProgress { session: file.session.clone(), progress: progress.clone() };
        let text = serde_json::to_string(&stored)?;
        files::replace(&file.directory.join(FILE), text.as_bytes(), Durability::Cached)
    }
}
