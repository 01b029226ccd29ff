//! Errors of commands: the message, the next action, and the exit code.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use serde_json::json;
use thiserror::Error;
use url::Url;

use super::exit::Exit;
use super::wording;
use crate::view::error::ErrorBody;

#[derive(Debug, Error)]
pub enum CliError {
    #[error("no server runs for this data directory")]
    NoServer,
    #[error("the server at {url} cannot be reached")]
    Unreachable { url: Url, source: reqwest::Error },
    #[error("the server at {url} closed the connection before its response was complete")]
    Cut { url: Url, source: reqwest::Error },
    /// An error body of the server, with its original text.
    #[error("{}", .body.message)]
    Answered { body: Box<ErrorBody>, text: String },
    #[error("the response from {url} (status {status}) is not that of a fleet-mcp server")]
    Foreign { url: Url, status: u16 },
    #[error("the server's response cannot be parsed")]
    Undecodable(#[source] serde_json::Error),
    #[error("no token is known for {url}")]
    NoToken { url: Url },
    #[error("the token contains characters that are not allowed in an HTTP header")]
    BadToken,
    #[error("no home directory is known for the data directory")]
    NoHome,
    #[error("read {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("write {}", path.display())]
    Save { path: PathBuf, source: io::Error },
    /// A file of another program that we refuse to change.
    #[error("{}, line {line}: {problem}; nothing was changed", path.display())]
    Malformed { path: PathBuf, line: usize, problem: String },
    #[error("the path of this program is not known: it was moved or replaced since it started")]
    NoProgram,
    #[error("read server.json")]
    ServerFile(#[source] serde_json::Error),
    #[error("{message}")]
    Usage { message: String, next: String },
    #[error("agent '{name}' did not become ready: it is {status}: {reason}")]
    NotReady { name: String, status: String, reason: String },
    #[error("the server was asked to stop and still runs after {seconds} s")]
    StillRuns { seconds: u64 },
    #[error("git could not {doing}: {output}")]
    Git { doing: &'static str, output: String, next: String },
    /// Work that builds on commits which its target repository lacks.
    #[error(
        "the work of '{agent}' is based on {} that {} does not have: {}",
        commits(missing), directory.display(), named(missing)
    )]
    MissingBase { agent: String, directory: PathBuf, missing: Vec<String> },
    /// No name in a rescue bundle can become a branch.
    #[error("the bundle of '{agent}' contains nothing that can be restored as a branch")]
    NothingToRestore { agent: String, bundle: Option<String> },
    #[error("the command was interrupted")]
    Interrupted,
    #[error("prepare the HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("write the output")]
    Output(#[source] io::Error),
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), next: next.into() }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::NoServer | Self::Unreachable { .. } | Self::Cut { .. } => Exit::Unavailable,
            Self::Answered { body, .. } => Exit::of_code(&body.code),
            Self::Foreign { status: 502..=504, .. } => Exit::Unavailable,
            Self::NoToken { .. } | Self::BadToken => Exit::Refused,
            Self::Usage { .. } => Exit::Usage,
            Self::NotReady { .. } | Self::StillRuns { .. } | Self::NoHome => Exit::Failed,
            Self::Foreign { .. } | Self::Undecodable(_) | Self::File { .. } | Self::ServerFile(_) => {
                Exit::Failed
            }
            Self::Save { .. } | Self::Malformed { .. } | Self::NoProgram => Exit::Failed,
            Self::Git { .. } | Self::MissingBase { .. } | Self::NothingToRestore { .. } => Exit::Failed,
            Self::Interrupted | Self::Client(_) | Self::Output(_) => Exit::Failed,
        }
    }

    /// The error with its causes on one line.
    pub(crate) fn message(&self) -> String {
        if let Self::Answered { body, .. } = self {
            return wording::for_operators(&body.message);
        }
        let mut message = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        message
    }

    /// The next action, in terms of the command line.
    pub(crate) fn next_action(&self) -> String {
        match self {
            Self::NoServer => "Run 'fleet-mcp up'.".into(),
            Self::Unreachable { .. } | Self::Cut { .. } => "Run 'fleet-mcp doctor'.".into(),
            Self::Answered { body, .. } => wording::for_operators(&body.next_action),
            Self::Foreign { .. } => "Check that the address belongs to a fleet-mcp server.".into(),
            Self::Undecodable(_) | Self::ServerFile(_) => {
                "Run 'fleet-mcp doctor' and compare the versions of server and command.".into()
            }
            Self::NoToken { .. } | Self::BadToken => {
                "Set FLEET_TOKEN to a token made by 'fleet-mcp token create'.".into()
            }
            Self::NoHome => "Choose a directory with --data-dir.".into(),
            Self::File { .. } => "Check that the file exists and that you may read it.".into(),
            Self::Save { .. } => "Check that you may write the file and its directory.".into(),
            Self::Malformed { path, line, .. } => {
                format!("Correct line {line} of {}, then run the command again.", path.display())
            }
            Self::NoProgram | Self::Interrupted => "Run the command again.".into(),
            Self::Usage { next, .. } | Self::Git { next, .. } => next.clone(),
            Self::MissingBase { missing, .. } => {
                let them = if missing.len() == 1 { "it" } else { "them" };
                format!("Set --into to a clone of the project's repository that has {them}.")
            }
            Self::NothingToRestore { bundle, .. } => match bundle {
                Some(path) => format!("Run 'git bundle list-heads {path}' to see its contents."),
                None => "Run 'fleet-mcp rescue list' to see other saved work.".into(),
            },
            Self::NotReady { name, .. } => {
                format!("Run 'fleet-mcp agents show {name}' and correct the cause.")
            }
            Self::StillRuns { .. } => {
                "Run 'fleet-mcp doctor'; terminate the process it names if the process hangs.".into()
            }
            Self::Client(_) | Self::Output(_) => "Run 'fleet-mcp doctor'.".into(),
        }
    }

    /// The error as JSON: the server's own text, or a body of the same shape.
    pub(crate) fn json(&self) -> String {
        if let Self::Answered { text, .. } = self {
            return text.clone();
        }
        // Serializing strings and null is infallible.
        serde_json::to_string(&self.own_body()).unwrap_or_default()
    }

    fn own_body(&self) -> ErrorBody {
        ErrorBody {
            code: self.own_code().to_owned(),
            message: self.message(),
            retryable: self.exit() == Exit::Unavailable,
            next_action: self.next_action(),
            instance_id: None,
            tool_name: None,
            details: json!({}),
        }
    }

    /// The error code of the contract for a failure on this side; an unreachable server has its own.
    fn own_code(&self) -> &'static str {
        if matches!(self, Self::Git { .. } | Self::MissingBase { .. } | Self::NothingToRestore { .. }) {
            return "GIT_FAILED";
        }
        match self.exit() {
            Exit::Unavailable => "SERVER_UNAVAILABLE",
            Exit::Usage => "INVALID_INPUT",
            Exit::NotFound => "NOT_FOUND",
            Exit::Refused => "UNAUTHENTICATED",
            Exit::Ok | Exit::Failed | Exit::Held => "INTERNAL",
        }
    }
}

/// At most this many commits are named; a bundle may build on any number.
const MOST_NAMED: usize = 5;

fn commits(missing: &[String]) -> &'static str {
    if missing.len() == 1 { "a commit" } else { "commits" }
}

fn named(missing: &[String]) -> String {
    let names: Vec<&str> = missing.iter().take(MOST_NAMED).map(String::as_str).collect();
    match missing.len().saturating_sub(MOST_NAMED) {
        0 => names.join(", "),
        n_more => format!("{} and {n_more} more", names.join(", ")),
    }
}
