//! The seam to the agent CLIs: how each one is called, and what its output means.
//!
//! Nothing here starts a process: an engine says what to run, and its reader turns lines of output into events
//! and, once the process has ended, into the outcome of the run.

pub mod demo;
mod event;
pub mod found;
pub(crate) mod git;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

pub use event::{End, Event, Exit, FailureKind, Usage};

/// Every engine there is, by the word that selects it.
pub const WORDS: [&str; 1] = [demo::WORD];

#[derive(Debug, Error, PartialEq, Eq)]
#[error("there is no engine '{word}'; there are: {}", WORDS.join(", "))]
pub struct UnknownEngine {
    pub word: String,
}

/// One kind of agent CLI.
pub trait Engine: fmt::Debug + Send + Sync {
    fn word(&self) -> &'static str;

    /// What to run for one message.
    fn invocation(&self, message: &str) -> Invocation;

    /// A reader for the output of one run.
    fn reader(&self) -> Box<dyn Reader>;
}

/// Understands what one run prints.
pub trait Reader: Send {
    fn line(&mut self, line: &str) -> Vec<Event>;

    /// How the run ended, from all lines and from how the process ended.
    fn end(self: Box<Self>, exit: &Exit) -> End;
}

/// A process to start; the message goes to its standard input, which is then closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(String, String)>,
    pub stdin: String,
}

/// The engine of this name. `own_program` is this binary: the demo engine is a part of it.
pub fn by_word(word: &str, own_program: PathBuf) -> Result<Arc<dyn Engine>, UnknownEngine> {
    match word {
        demo::WORD => Ok(Arc::new(demo::Demo { program: own_program })),
        other => Err(UnknownEngine { word: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_engine_is_refused_with_those_there_are() {
        let error = by_word("nope", PathBuf::new()).unwrap_err().to_string();
        assert_eq!(error, "there is no engine 'nope'; there are: demo");
        for word in WORDS {
            assert_eq!(by_word(word, PathBuf::new()).unwrap().word(), word);
        }
    }
}
