//! What the demo engine remembers of a conversation: how far it came with the last message.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::SESSION;

const FILE: &str = "demo-session.json";
const FRESH: &str = "demo-session.json.new";

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
    message: String,
    n_done: usize,
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

    /// The message that was cut short, and how many of its directives are done.
    pub(super) fn unfinished(&self) -> Option<(String, usize)> {
        let place = self.place.as_ref()?;
        let text = std::fs::read_to_string(place.directory.join(FILE)).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        (kept.session == place.session).then_some((kept.message, kept.n_done))
    }

    pub(super) fn keep(&self, message: &str, n_done: usize) -> io::Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        let (session, message) = (place.session.clone(), message.to_owned());
        let text = serde_json::to_string(&Kept { session, message, n_done })?;
        std::fs::write(place.directory.join(FRESH), text)?;
        std::fs::rename(place.directory.join(FRESH), place.directory.join(FILE))
    }
}
