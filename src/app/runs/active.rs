//! The runs that this process follows: their latest state, and their commands, which are never stored.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::coder::exec::Command;
use crate::domain::id::RunId;
use crate::domain::run::Run;

/// Shared by callers and the reconciler.
#[derive(Debug)]
pub(in crate::app) struct ActiveRuns {
    runs: Mutex<HashMap<RunId, ActiveRun>>,
    /// Wakes the reconciler; the number only grows.
    nudges: watch::Sender<u64>,
}

#[derive(Debug)]
struct ActiveRun {
    /// Kept until the workspace confirms the start; none for a run from before a restart.
    command: Option<Command>,
    progress: watch::Sender<Run>,
}

impl Default for ActiveRuns {
    fn default() -> Self {
        Self { runs: Mutex::default(), nudges: watch::Sender::new(0) }
    }
}

impl ActiveRuns {
    /// Starts to follow a run; a run that is already followed is unchanged.
    pub(in crate::app) fn put(&self, run: &Run, command: Option<Command>) {
        let fresh = || ActiveRun { command, progress: watch::Sender::new(run.clone()) };
        self.runs().entry(run.id).or_insert_with(fresh);
    }

    pub(in crate::app) fn forget(&self, id: RunId) {
        self.runs().remove(&id);
    }

    /// The command, until its start is confirmed.
    pub(in crate::app) fn command(&self, id: RunId) -> Option<Command> {
        self.runs().get(&id)?.command.clone()
    }

    pub(in crate::app) fn forget_command(&self, id: RunId) {
        if let Some(active) = self.runs().get_mut(&id) {
            active.command = None;
        }
    }

    /// A row that was read before a cancel was recorded takes no cancel back.
    pub(in crate::app) fn publish(&self, run: &Run) {
        if let Some(active) = self.runs().get(&run.id) {
            active.progress.send_modify(|shown| {
                let cancel = run.cancel.or(shown.cancel);
                *shown = Run { cancel, ..run.clone() };
            });
        }
    }

    pub(in crate::app) fn progress(&self, id: RunId) -> Option<watch::Receiver<Run>> {
        Some(self.runs().get(&id)?.progress.subscribe())
    }

    /// Subscribes to a run that the reconciler follows.
    pub(in crate::app) fn watch(&self, run: &Run) -> watch::Receiver<Run> {
        let fresh = || ActiveRun { command: None, progress: watch::Sender::new(run.clone()) };
        self.runs().entry(run.id).or_insert_with(fresh).progress.subscribe()
    }

    pub(in crate::app) fn nudge(&self) {
        self.nudges.send_modify(|n| *n += 1);
    }

    pub(in crate::app) fn nudges(&self) -> watch::Receiver<u64> {
        self.nudges.subscribe()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, ActiveRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
