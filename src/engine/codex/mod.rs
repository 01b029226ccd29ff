//! Codex as an engine.

mod invocation;
mod overrides;
mod reader;
mod wire;

use std::path::PathBuf;

use chrono::{DateTime, Utc};

use super::{Engine, EngineWord, Invocation, Reader, Request, Session, Unfit};

/// The oldest version whose flags and output we know. Measured with 0.166.0; one run tried with 0.150.0.
pub const MINIMUM: [u32; 2] = [0, 150];
pub const PROGRAM: &str = "codex";
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
            Self::Workspace => "workspace-write",
            Self::Impossible => "danger-full-access",
        }
    }
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

    /// Codex names each thread itself, once it has begun.
    fn conversation(&self, session: &Session) -> Option<String> {
        session.known().map(str::to_owned)
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
