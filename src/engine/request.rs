//! What one run is to do, in the same terms for all engines, and the process that does it.

use std::ffi::OsString;
use std::path::PathBuf;

use thiserror::Error;
use uuid::Uuid;

use super::spending::Count;
use super::template::{TemplateError, Values};
use crate::domain::run::EngineOutput;
use crate::git::Repository;

/// Under these titles a prompt tells who the agent is, and what its repository wants it to heed.
pub(super) const ROLE: &str = "Role";
pub(super) const NOTES: &str = "Notes of this repository";

/// One message for an engine, with all that goes with it.
#[derive(Debug, Clone)]
pub struct Request {
    pub message: String,
    pub session: Session,
    /// The persona; it must hold no secret.
    pub role: Option<RolePrompt>,
    /// What the repository tells its agents, for an engine that is kept from reading it itself.
    pub notes: Option<String>,
    /// The user's own settings of the engine, for an engine that names a file of them.
    pub settings: Option<String>,
    pub model: Option<String>,
    /// Where it works.
    pub directory: PathBuf,
    pub repository: Option<Repository>,
    /// How to reach the fleet; none until somebody has told.
    pub fleet: Option<FleetAccess>,
    /// What this run may cost at most.
    pub max_cost_usd: Option<f64>,
    /// It judges the work of others, and waits to be told how.
    pub is_review: bool,
    pub output: EngineOutput,
    /// Further variables for the template of an engine that is called by one.
    pub variables: Values,
}

/// The engine's own memory of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Session {
    /// A new one that no later run continues.
    Unnamed,
    /// A new one; engines that let us choose its id take this one.
    Fresh { id: Uuid },
    /// A new one that the engine has just made, and nothing was said in yet.
    Opened { id: String },
    /// One it knows, and what that has used so far.
    Resume { id: String, spent: Count },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolePrompt {
    pub text: String,
    /// The same text in a file, for engines that read it there.
    pub file: PathBuf,
}

/// What an engine needs to call the fleet as its agent.
#[derive(Debug, Clone)]
pub struct FleetAccess {
    /// The file for Claude Code; it holds the token.
    pub mcp_json: PathBuf,
    /// The text for Codex; it names the variable that holds the token.
    pub config_toml: String,
    /// The file that holds the token alone.
    pub token: PathBuf,
}

/// A process to start; its standard input gets the text and is then closed.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(String, String)>,
    /// Variables whose values are the first lines of these files; only whoever starts the process reads them.
    pub secrets: Vec<(String, PathBuf)>,
    pub stdin: String,
}

/// Why a request cannot be put to an engine.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Unfit {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("the fleet's configuration for Codex is not TOML: {0}")]
    CodexConfig(String),
}

impl Session {
    /// What the conversation used before this run.
    pub fn spent(&self) -> Count {
        match self {
            Self::Unnamed | Self::Fresh { .. } | Self::Opened { .. } => Count::default(),
            Self::Resume { spent, .. } => *spent,
        }
    }

    /// The id of one that is there already.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Unnamed | Self::Fresh { .. } => None,
            Self::Opened { id } | Self::Resume { id, .. } => Some(id),
        }
    }

    /// Its id, where we choose that for a new one.
    pub(super) fn id(&self) -> Option<String> {
        match self {
            Self::Unnamed => None,
            Self::Fresh { id } => Some(id.to_string()),
            Self::Opened { id } | Self::Resume { id, .. } => Some(id.clone()),
        }
    }
}

impl Request {
    /// A message alone.
    pub fn bare(message: String, session: Session) -> Self {
        Self {
            message,
            session,
            role: None,
            notes: None,
            settings: None,
            model: None,
            directory: ".".into(),
            repository: None,
            fleet: None,
            max_cost_usd: None,
            is_review: false,
            output: EngineOutput::Events,
            variables: Values::new(),
        }
    }

    /// The message after what a new conversation has to know first; a later run remembers it.
    pub(super) fn prompt(&self, parts: &[(&str, Option<&str>)]) -> String {
        if matches!(self.session, Session::Resume { .. }) {
            return self.message.clone();
        }
        let parts = parts.iter().filter_map(|(title, text)| Some((*title, text.as_ref()?.trim())));
        let parts: Vec<_> = parts.map(|(title, text)| format!("# {title}\n\n{text}\n\n---\n\n")).collect();
        if parts.is_empty() {
            self.message.clone()
        } else {
            format!("{}# Task\n\n{}", parts.concat(), self.message)
        }
    }

    pub(super) fn role_text(&self) -> Option<&str> {
        self.role.as_ref().map(|role| role.text.as_str())
    }
}
