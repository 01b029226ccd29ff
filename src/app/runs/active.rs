//! The runs that this process follows: their newest state for those who wait, and what is never stored of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::coder::exec::Command;
use crate::domain::id::RunId;
use crate::domain::run::Run;

/// Shared between those who start and wait, and the reconciler.
#[derive(Debug)]
pub(in crate::app) struct ActiveRuns {
    runs: Mutex<HashMap<RunId, ActiveRun>>,
    /// Wakes the reconciler; the number only grows.
    nudges: watch::Sender<u64>,
}

#[derive(Debug)]
struct ActiveRun {
    /// Until the workspace has confirmed the start; a run from before our own start has none.
    command: Option<Command>,
    progress: watch::Sender<Run>,
}

impl Default for ActiveRuns {
    fn default() -> Self {
        Self { runs: Mutex::default(), nudges: watch::Sender::new(0) }
    }
}

impl ActiveRuns {
    /// Begins to follow a run; one that is followed already stays as it is.
    pub(in crate::app) fn put(&self, run: &Run, command: Option<Command>) {
        let fresh = || ActiveRun { command, progress: watch::Sender::new(run.clone()) };
        self.runs().entry(run.id).or_insert_with(fresh);
    }

    pub(in crate::app) fn forget(&self, id: RunId) {
        self.runs().remove(&id);
    }

    /// What to start, while that is not known to have happened.
    pub(in crate::app) fn command(&self, id: RunId) -> Option<Command> {
        self.runs().get(&id)?.command.clone()
    }

    pub(in crate::app) fn forget_command(&self, id: RunId) {
        if let Some(active) = self.runs().get_mut(&id) {
            active.command = None;
        }
    }

    pub(in crate::app) fn publish(&self, run: &Run) {
        if let Some(active) = self.runs().get(&run.id) {
            active.progress.send_replace(run.clone());
        }
    }

    pub(in crate::app) fn progress(&self, id: RunId) -> Option<watch::Receiver<Run>> {
        Some(self.runs().get(&id)?.progress.subscribe())
    }

    /// Follows a run that somebody else is going to bring to its end.
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
