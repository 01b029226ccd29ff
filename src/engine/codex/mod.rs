//! Codex as an engine.

mod invocation;
mod overrides;
mod reader;
mod wire;

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use super::{Engine, EngineWord, Invocation, InvocationError, Reader, Request, Session};
use crate::domain::run::EngineOutput;

/// The oldest supported version. Measured with 0.166.0; one run tested with 0.150.0.
pub const MINIMUM: [u32; 2] = [0, 150];
/// Arguments that test whether Codex can sandbox a command here.
pub const TRY_SANDBOX: [&str; 3] = ["sandbox", "--", "true"];
/// The environment variable with the agent's token.
const TOKEN_VARIABLE: &str = "FLEET_TOKEN";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codex {
    pub program: PathBuf,
    /// The directory of its session logs.
    pub home: PathBuf,
    pub sandbox: Sandbox,
}

/// Whether Codex can sandbox its commands. Without user namespaces every sandboxed command and edit fails, and Codex
/// still reports success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    Workspace,
    Impossible,
}

impl Sandbox {
    /// The value of `--sandbox`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Workspace => "workspace-write",
            Self::Impossible => "danger-full-access",
        }
    }
}

impl Engine for Codex {
    fn word(&self) -> EngineWord {
        EngineWord::Codex
    }

    /// Codex reads this file only in trusted repositories, and no repository is trusted.
    fn notes_file(&self) -> Option<&'static str> {
        Some("AGENTS.md")
    }

    /// Codex merges the servers in this file with those of a run. None if its home is on another machine.
    fn settings_file(&self) -> Option<PathBuf> {
        self.home.is_absolute().then(|| self.home.join("config.toml"))
    }

    /// Codex chooses the id of a thread itself, when the thread begins.
    fn conversation(&self, session: &Session) -> Option<String> {
        session.known().map(str::to_owned)
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, InvocationError> {
        invocation::of(self, request)
    }

    fn reports_usage(&self, _output: EngineOutput) -> bool {
        true
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        let sessions = self.home.join("sessions");
        Box::new(reader::CodexReader::new(sessions, &request.session, request.model.as_deref()))
    }

    fn record_reader(&self, session: &str, since: DateTime<Utc>) -> Option<Box<dyn Reader>> {
        Some(Box::new(reader::CodexReader::of_record(self.home.join("sessions"), session, since)))
    }
}
