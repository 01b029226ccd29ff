//! Codex as an engine.

mod invocation;
mod overrides;
mod reader;
mod wire;

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::{Engine, EngineWord, Invocation, Reader, Repository, Request, Unfit};

pub(super) use invocation::without_client;

/// The oldest version whose flags and output we know. Measured with 0.166.0; one run tried with 0.150.0.
pub const MINIMUM: [u32; 2] = [0, 150];
pub const PROGRAM: &str = "codex";
/// How Codex shuts in what it runs, where that is possible.
pub const USUAL_SANDBOX: &str = "workspace-write";
/// What Codex is told to try whether it can do that at all.
pub const TRY_SANDBOX: [&str; 3] = ["sandbox", "--", "true"];
/// The variable by which Codex is given the agent's token.
const TOKEN_VARIABLE: &str = "FLEET_TOKEN";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codex {
    pub program: PathBuf,
    /// Where it keeps its conversations.
    pub home: PathBuf,
    pub sandbox: Sandbox,
}

/// Whether Codex can shut its commands in. Without user namespaces every command and edit fails, and the run
/// still calls itself a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    Workspace,
    Impossible,
}

impl Sandbox {
    /// As Codex calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Workspace => USUAL_SANDBOX,
            Self::Impossible => "danger-full-access",
        }
    }
}

/// The settings of Codex that depend on where it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceSettings {
    /// Nothing that the directory and its repository bring along is believed.
    pub distrust: String,
    /// Where git writes; none outside of repositories.
    pub writable_roots: Option<String>,
}

impl PlaceSettings {
    pub fn of(directory: &Path, repository: Option<&Repository>) -> Self {
        Self {
            distrust: invocation::distrust(directory, repository),
            writable_roots: repository.map(invocation::writable_roots),
        }
    }
}

/// The conversation that the beginning of its output names.
pub fn thread_of(stdout: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stdout);
    text.lines().find_map(|line| match serde_json::from_str(line) {
        Ok(wire::Line::ThreadStarted { thread_id }) => Some(thread_id),
        Ok(_) | Err(_) => None,
    })
}

impl Engine for Codex {
    fn word(&self) -> EngineWord {
        EngineWord::Codex
    }

    /// Codex reads these only in repositories it trusts, and it trusts none of ours.
    fn notes_file(&self) -> Option<&'static str> {
        Some("AGENTS.md")
    }

    /// Its servers are merged with those of a run. None where its home is not on this machine.
    fn settings_file(&self) -> Option<PathBuf> {
        self.home.is_absolute().then(|| self.home.join("config.toml"))
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, Unfit> {
        invocation::of(self, request)
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        let sessions = self.home.join("sessions");
        Box::new(reader::CodexReader::new(sessions, &request.session, request.model.as_deref()))
    }

    fn record_reader(&self, session: &str, since: DateTime<Utc>) -> Option<Box<dyn Reader>> {
        Some(Box::new(reader::CodexReader::of_record(self.home.join("sessions"), session, since)))
    }
}
