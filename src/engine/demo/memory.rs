//! What the demo engine remembers of a conversation: how far it came with the last message.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SESSION;
use crate::files::{self, Durability};

const FILE: &str = "demo-session.json";

/// The memory of this run; none where nothing can be kept.
#[derive(Debug, Default)]
pub(super) struct Memory {
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    directory: PathBuf,
    session: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    session: String,
    #[serde(flatten)]
    progress: Progress,
}

/// How far a message has been obeyed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) message: String,
    pub(super) n_done: usize,
    /// Names what the directive in hand does, so that it is not done a second time.
    #[serde(default = "Uuid::now_v7")]
    pub(super) step: Uuid,
}

impl Progress {
    pub(super) fn begin(message: &str) -> Self {
        Self { message: message.to_owned(), n_done: 0, step: Uuid::now_v7() }
    }

    /// The directive in hand is done.
    pub(super) fn advance(&mut self) {
        self.n_done += 1;
        self.step = Uuid::now_v7();
    }
}

impl Memory {
    /// Where the runner keeps its own things; without a session there is nothing to remember.
    pub(super) fn of_environment() -> Self {
        let (directory, session) = (std::env::var_os("FLEET_AGENT_DIR"), std::env::var(SESSION).ok());
        let place =
            directory.zip(session).map(|(directory, session)| Place { directory: directory.into(), session });
        Self { place }
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.session.as_str())
    }

    /// Of the message that was cut short.
    pub(super) fn unfinished(&self) -> Option<Progress> {
        let place = self.place.as_ref()?;
        let text = std::fs::read_to_string(place.directory.join(FILE)).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        (kept.session == place.session).then_some(kept.progress)
    }

    pub(super) fn keep(&self, progress: &Progress) -> io::Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        let kept = Kept { session: place.session.clone(), progress: progress.clone() };
        let text = serde_json::to_string(&kept)?;
        files::replace(&place.directory.join(FILE), text.as_bytes(), Durability::Cached)
    }
}
