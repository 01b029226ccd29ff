//! The input of one run, in the same terms for all engines, and the process that carries it out.

use std::ffi::OsString;
use std::path::PathBuf;

use thiserror::Error;
use uuid::Uuid;

use super::spending::ConversationUsage;
use super::template::{TemplateError, Values};
use crate::domain::run::EngineOutput;
use crate::git::Repository;

/// Titles in a prompt of the agent's role and its repository's instructions.
pub(super) const ROLE: &str = "Role";
pub(super) const NOTES: &str = "Notes of this repository";

/// A message for an engine, with its context.
#[derive(Debug, Clone)]
pub struct Request {
    pub message: String,
    pub session: Session,
    /// The role's prompt; it must contain no secret.
    pub role: Option<RolePrompt>,
    /// The repository's instructions, for an engine that cannot read them itself.
    pub notes: Option<String>,
    /// The user's settings of the engine, for an engine with a settings file.
    pub settings: Option<String>,
    pub model: Option<String>,
    pub directory: PathBuf,
    pub repository: Option<Repository>,
    /// Access to the fleet; none until the agent is provisioned.
    pub fleet: Option<FleetAccess>,
    /// The maximum cost of this run.
    pub max_cost_usd: Option<f64>,
    /// The agent is a reviewer, which waits for instructions.
    pub is_review: bool,
    pub output: EngineOutput,
    /// Additional variables for the template of a custom engine.
    pub variables: Values,
}

/// The conversation of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Session {
    /// A new conversation that no later run continues.
    Unnamed,
    /// A new conversation, with this id if the engine accepts one.
    Fresh { id: Uuid },
    /// A conversation that the engine has created, still empty.
    Created { id: String },
    /// An existing conversation and its usage so far.
    Resume { id: String, spent: ConversationUsage },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolePrompt {
    pub text: String,
    /// The same text in a file, for engines that read it from there.
    pub file: PathBuf,
}

/// Credentials of an engine that calls the fleet as its agent.
#[derive(Debug, Clone)]
pub struct FleetAccess {
    /// The file for Claude Code; it holds the token.
    pub mcp_json: PathBuf,
    /// The text for Codex; it names the variable that holds the token.
    pub config_toml: String,
    /// The file that holds the token alone.
    pub token: PathBuf,
}

/// A process to start; its standard input gets `stdin` and is then closed.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(String, String)>,
    /// Variables whose values are the first lines of files; only the process that starts the engine reads them.
    pub secrets: Vec<(String, PathBuf)>,
    pub stdin: String,
}

/// Why an engine cannot carry out a request.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvocationError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("the fleet's configuration for Codex is not TOML: {0}")]
    CodexConfig(String),
}

impl Session {
    /// Usage of the conversation before this run.
    pub fn usage_before(&self) -> ConversationUsage {
        match self {
            Self::Unnamed | Self::Fresh { .. } | Self::Created { .. } => ConversationUsage::default(),
            Self::Resume { spent, .. } => *spent,
        }
    }

    /// The id of an existing conversation.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Unnamed | Self::Fresh { .. } => None,
            Self::Created { id } | Self::Resume { id, .. } => Some(id),
        }
    }

    /// The id of the conversation, chosen by us if it is new.
    pub(super) fn id(&self) -> Option<String> {
        match self {
            Self::Unnamed => None,
            Self::Fresh { id } => Some(id.to_string()),
            Self::Created { id } | Self::Resume { id, .. } => Some(id.clone()),
        }
    }
}

impl Request {
    /// A message without context.
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

    /// The message, in a new conversation preceded by these parts; a resumed conversation has them already.
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
