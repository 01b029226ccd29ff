//! Engine runs: one message for an engine inside a workspace, from what it needs to what came of it.
//!
//! An owner (a task, a squad member) says what is to be done and gets an outcome. How a CLI is called, read, counted
//! and stopped is decided here. The process itself is a run of [`super::runs`].

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

/// What an owner wants an engine to do.
#[derive(Debug)]
pub(in crate::app) struct EngineRequest<'a> {
    /// What it is for, for people.
    pub(in crate::app) purpose: String,
    pub(in crate::app) message: String,
    pub(in crate::app) session: Session,
    /// The engine of a conversation that is continued; none for the engine of the agent's project.
    pub(in crate::app) engine: Option<EngineWord>,
    pub(in crate::app) model: Option<String>,
    /// Inside the agent's own directory, which it is if nothing is named.
    pub(in crate::app) cwd: Option<&'a str>,
    pub(in crate::app) briefing: Briefing,
    pub(in crate::app) output: EngineOutput,
    /// Whose budget it uses.
    pub(in crate::app) spender: Spender,
    /// Further variables for templates.
    pub(in crate::app) variables: Values,
    pub(in crate::app) timeout: Duration,
}

/// What an engine knows beside its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app) enum Briefing {
    /// Role, notes of the repository and access to the fleet, as its agent has them.
    Agent,
    Nothing,
}

/// A run that can be launched, and what its owner records before that.
#[derive(Debug)]
pub(in crate::app) struct PreparedRun {
    new: NewRun,
    pub(in crate::app) engine: EngineWord,
    /// Absolute, links resolved.
    pub(in crate::app) cwd: String,
    /// Where the repository stands: empty before the first commit; none where there is no repository.
    pub(in crate::app) head: Option<String>,
    /// The engine's id for the conversation, where it is known already.
    pub(in crate::app) conversation: Option<String>,
}

/// Why a run is not launched, and the directory it would have had as far as that is known.
#[derive(Debug)]
pub(in crate::app) struct PrepareFailure {
    pub(in crate::app) cwd: Option<String>,
    pub(in crate::app) reason: PrepareError,
}

#[derive(Debug)]
pub(in crate::app) enum PrepareError {
    /// The workspace does not answer, or the agent's briefing for this start is not there yet: try again.
    Later(String),
    /// The directory cannot be used as it is.
    Directory(String),
    /// It never will be, for this reason.
    Impossible(String),
    /// The workspace's engine or our own state; the owner decides by its code.
    Fleet(Error),
}

impl From<Error> for PrepareError {
    fn from(error: Error) -> Self {
        Self::Fleet(error)
    }
}

/// A request that the engine cannot be called for, such as a prompt too long for an argument.
impl From<InvocationError> for PrepareError {
    fn from(unfit: InvocationError) -> Self {
        Self::Impossible(unfit.to_string())
    }
}
