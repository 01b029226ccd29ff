//! The agent CLIs: how each is called, and how its output is read.
//!
//! An engine starts nothing: it describes a process, and its reader turns lines of output into events and, after the
//! process has ended, into the outcome of the run. Only [`installed`] runs programs, to ask for their versions.

pub(crate) mod budget;
pub mod claude;
pub mod codex;
pub mod commands;
pub mod custom;
pub mod demo;
pub mod discovery;
mod event;
mod failure;
pub mod installed;
mod lines;
mod plain_text;
pub mod price;
mod request;
pub mod spending;
pub mod template;

use std::fmt;
use std::path::PathBuf;

use chrono::{DateTime, Utc};

pub(crate) use lines::Lines;

use crate::domain::run::EngineOutput;

pub use crate::domain::engine_word::{EngineWord, UnknownEngine, by_word, word_list};
pub use crate::git::Repository;
pub use event::{EngineEnd, EngineEvent, Exit, FailureKind, RunUsage, Usage, UsageRecord};
pub use request::{FleetAccess, Invocation, InvocationError, Request, RolePrompt, Session};
pub use spending::{ConversationUsage, Spending};

/// One kind of agent CLI.
pub trait Engine: fmt::Debug + Send + Sync {
    fn word(&self) -> EngineWord;

    /// The file with a repository's instructions for this engine, if the fleet must read it for the engine.
    fn notes_file(&self) -> Option<&'static str> {
        None
    }

    /// The file with the user's settings, if the arguments of a run depend on them.
    fn settings_file(&self) -> Option<PathBuf> {
        None
    }

    /// The id of the conversation, if it is known before the run begins.
    fn conversation(&self, session: &Session) -> Option<String> {
        session.id()
    }

    /// The process that creates a conversation and prints its id, for engines that need it before the first run.
    fn session_creation(&self, _request: &Request) -> Result<Option<Invocation>, InvocationError> {
        Ok(None)
    }

    /// The process for one message.
    fn invocation(&self, request: &Request) -> Result<Invocation, InvocationError>;

    /// Whether the output in this format has usage figures.
    fn reports_usage(&self, output: EngineOutput) -> bool;

    /// A reader for the output of one run.
    fn reader(&self, request: &Request) -> Box<dyn Reader>;

    /// A reader for the session log of an earlier run whose output is lost; most engines keep no such log.
    fn record_reader(&self, _session: &str, _since: DateTime<Utc>) -> Option<Box<dyn Reader>> {
        None
    }
}

/// Reads the output of one run.
pub trait Reader: Send + Sync {
    fn line(&mut self, line: &str) -> Vec<EngineEvent>;

    /// Whether the engine has printed its outcome; its process may still run for a moment.
    fn is_over(&self) -> bool {
        false
    }

    /// The outcome, from all lines and the end of the process.
    fn end(self: Box<Self>, exit: &Exit) -> EngineEnd;

    /// A file with more events than the output; known at the earliest after the first line of output.
    fn session_log(&self) -> Option<SessionLog> {
        None
    }

    /// Reads a line of the session log.
    fn session_log_line(&mut self, _line: &str) -> Vec<EngineEvent> {
        Vec::new()
    }
}

/// A file somewhere below `root` whose name has this ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLog {
    pub root: PathBuf,
    pub ending: String,
}
