//! The seam to the agent CLIs: how each one is called, and what its output means.
//!
//! Engines themselves start nothing: one says what to run, and its reader turns lines of output into events and,
//! once the process has ended, into the outcome of the run. Only [`installed`] asks the programs who they are.

pub(crate) mod budget;
pub mod claude;
pub mod codex;
pub mod commands;
pub mod custom;
pub mod demo;
mod event;
mod failure;
pub mod found;
pub mod installed;
mod lines;
pub mod price;
mod request;
pub mod spending;
pub mod template;
mod word;
mod words;

use std::fmt;
use std::path::PathBuf;

use chrono::{DateTime, Utc};

pub(crate) use lines::Lines;

pub use event::{End, Event, Exit, FailureKind, Spent, Usage, UsageRecord};
pub use request::{FleetAccess, Invocation, Request, RolePrompt, Session, Unfit};
pub use spending::{Count, Spending};
pub use word::{EngineWord, UnknownEngine, by_word, words};

pub use crate::git::Repository;

/// One kind of agent CLI.
pub trait Engine: fmt::Debug + Send + Sync {
    fn word(&self) -> EngineWord;

    /// The file in which repositories tell this engine what to heed, where we have to read it in its stead.
    fn notes_file(&self) -> Option<&'static str> {
        None
    }

    /// The file of its user's own settings, where a run has to know what is in it.
    fn settings_file(&self) -> Option<PathBuf> {
        None
    }

    /// The id of the conversation, where that is known before the run begins.
    fn conversation(&self, session: &Session) -> Option<String> {
        session.id()
    }

    /// What makes a conversation before its first run; it prints the id. Most engines need nothing like that.
    fn opening(&self, _request: &Request) -> Result<Option<Invocation>, Unfit> {
        Ok(None)
    }

    /// What to run for one message.
    fn invocation(&self, request: &Request) -> Result<Invocation, Unfit>;

    /// A reader for the output of one run.
    fn reader(&self, request: &Request) -> Box<dyn Reader>;

    /// A reader for the side file of a run that began then and whose output is lost; most engines keep no such file.
    fn record_reader(&self, _session: &str, _since: DateTime<Utc>) -> Option<Box<dyn Reader>> {
        None
    }
}

/// Understands what one run prints.
pub trait Reader: Send + Sync {
    fn line(&mut self, line: &str) -> Vec<Event>;

    /// Has the engine told its outcome? Its process may go on for a moment.
    fn is_over(&self) -> bool {
        false
    }

    /// How the run ended, from all lines and from how the process ended.
    fn end(self: Box<Self>, exit: &Exit) -> End;

    /// A file in which the engine tells more while it runs; known at the earliest once it has spoken.
    fn side_file(&self) -> Option<SideFile> {
        None
    }

    /// A line of that file.
    fn side_line(&mut self, _line: &str) -> Vec<Event> {
        Vec::new()
    }
}

/// A file that is somewhere below a directory and known by the end of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideFile {
    pub root: PathBuf,
    pub ending: String,
}
