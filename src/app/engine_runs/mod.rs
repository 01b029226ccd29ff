//! Engine runs: one message for an engine inside a workspace, from its preparation to its outcome.
//!
//! An owner (a task, a squad member) makes a request and gets an outcome. How an engine is called, read, counted and
//! stopped is decided here. The process itself is a run of [`super::runs`].

mod budget;
mod live;
mod prepare;
mod settle;

use std::time::Duration;

pub(in crate::app) use live::LiveReading;
pub(in crate::app) use settle::{EngineOutcome, EngineReport};

use super::error::Error;
use super::runs::NewRun;
use crate::domain::run::EngineOutput;
use crate::domain::usage::Spender;
use crate::engine::template::Values;
use crate::engine::{EngineWord, InvocationError, Session};

/// An owner's request to an engine.
#[derive(Debug)]
pub(in crate::app) struct EngineRequest<'a> {
    /// The purpose, for people.
    pub(in crate::app) purpose: String,
    pub(in crate::app) message: String,
    pub(in crate::app) session: Session,
    /// The engine of a continued conversation; none for the engine of the agent's project.
    pub(in crate::app) engine: Option<EngineWord>,
    pub(in crate::app) model: Option<String>,
    /// A path inside the agent's directory; none for that directory itself.
    pub(in crate::app) cwd: Option<&'a str>,
    pub(in crate::app) briefing: Briefing,
    /// With a budget, text becomes events if the engine has figures only there.
    pub(in crate::app) output: EngineOutput,
    /// The budget that the run counts against.
    pub(in crate::app) spender: Spender,
    /// Further variables of templates.
    pub(in crate::app) variables: Values,
    pub(in crate::app) timeout: Duration,
}

/// The context that an engine gets beside its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app) enum Briefing {
    /// Role, repository notes and fleet access, as for a task of the agent.
    Agent,
    Nothing,
}

/// A run that can be launched, and the facts that its owner records first.
#[derive(Debug)]
pub(in crate::app) struct PreparedRun {
    new: NewRun,
    pub(in crate::app) engine: EngineWord,
    /// Absolute, with links resolved.
    pub(in crate::app) cwd: String,
    /// The repository's HEAD: empty before the first commit; none without a repository.
    pub(in crate::app) head: Option<String>,
    /// The engine's id of the conversation, if known in advance.
    pub(in crate::app) conversation: Option<String>,
}

/// Why a run cannot be launched, with its directory if that is known.
#[derive(Debug)]
pub(in crate::app) struct PrepareFailure {
    pub(in crate::app) cwd: Option<String>,
    pub(in crate::app) reason: PrepareError,
}

#[derive(Debug)]
pub(in crate::app) enum PrepareError {
    /// The workspace does not respond, or the agent's files of this start are not delivered yet: retry.
    Later(String),
    /// The directory is unusable.
    Directory(String),
    /// A retry cannot succeed.
    Impossible(String),
    /// An error of the engine lookup or of the fleet; the owner decides by its code.
    Fleet(Error),
}

impl From<Error> for PrepareError {
    fn from(error: Error) -> Self {
        Self::Fleet(error)
    }
}

/// The engine cannot be called for this request, such as with a prompt too long for an argument.
impl From<InvocationError> for PrepareError {
    fn from(unfit: InvocationError) -> Self {
        Self::Impossible(unfit.to_string())
    }
}
