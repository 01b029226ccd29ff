//! What the worker is asked for from outside: messages to take, runs to end.

use chrono::Utc;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Worker;
use crate::engine::budget::BudgetError;
use crate::engine::{Count, Usage};
use crate::runner::budget;
use crate::runner::conversation::{Known, Progress};
use crate::runner::entry::{Entry, Interruption, Outcome, Source, TaskKey};
use crate::runner::journal::JournalError;

/// So much may wait; whoever has more keeps it until there is room.
const MAX_WAITING: usize = 256;
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// What the HTTP side asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Submit {
        content: String,
        task_id: Option<TaskKey>,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Ends the run under way, or only if it is this task's.
    Interrupt {
        task_id: Option<TaskKey>,
    },
    /// Ends this task, also while it still waits for its turn.
    Cancel {
        task_id: TaskKey,
    },
}

/// Why a message is not taken.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error("message can only be sent when the agent is waiting for user input")]
    Busy,
    #[error("too much waits for this agent already; send this again when some of it has ended")]
    Full,
    #[error(transparent)]
    Budget(BudgetError),
    #[error("the agent is stopping")]
    Stopping,
    #[error("the message cannot be kept")]
    Journal(#[source] JournalError),
}

impl Worker {
    pub(super) async fn obey(&mut self, command: Command, running: Option<(usize, &CancellationToken)>) {
        match command {
            Command::Submit { content, task_id, answer } => {
                // Whoever asked may be gone; the message is kept all the same.
                let _gone = answer.send(self.submit(content, task_id).await);
            }
            Command::Interrupt { task_id: None } => {
                running.into_iter().for_each(|(_, interrupt)| interrupt.cancel());
            }
            Command::Interrupt { task_id: Some(task_id) } => self.interrupt(&task_id, running),
            Command::Cancel { task_id } => {
                self.interrupt(&task_id, running);
                self.withdraw(&task_id).await;
            }
        }
    }

    fn interrupt(&self, task_id: &TaskKey, running: Option<(usize, &CancellationToken)>) {
        let Some((turn, interrupt)) = running else { return };
        let state = self.state.borrow();
        if state.conversation.turn(turn).is_some_and(|turn| turn.task_id.as_ref() == Some(task_id)) {
            interrupt.cancel();
        }
    }

    /// Ends a task that never began. Without a record of it the task stays as it is.
    async fn withdraw(&mut self, task_id: &TaskKey) {
        let waiting = match self.state.borrow().conversation.task(task_id) {
            Known::Turn(number, turn) if matches!(turn.progress, Progress::Queued) => Some(number),
            Known::Turn(..) | Known::Forgotten | Known::Never => None,
        };
        let Some(turn) = waiting else { return };
        let by = Interruption::Request;
        let ended = Entry::Ended {
            at: Utc::now(),
            turn,
            outcome: Outcome::Interrupted { by },
            text: by.text().to_owned(),
            usage: Usage::default(),
            session: Count::default(),
        };
        match self.journal.append(&ended).await {
            Ok(()) => self.state.send_modify(|state| state.conversation.apply(ended)),
            Err(error) => tracing::error!(%error, "a task could not be taken out of the queue"),
        }
    }

    /// Takes a message: once for each task, on disk before it is promised, and only a task waits for its turn.
    async fn submit(&mut self, content: String, task_id: Option<TaskKey>) -> Result<(), Refusal> {
        if self.stop.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        {
            let state = self.state.borrow();
            let known = task_id.as_ref().map(|task_id| state.conversation.task(task_id));
            if matches!(known, Some(Known::Turn(..) | Known::Forgotten)) {
                return Ok(());
            }
            if task_id.is_none() && !state.conversation.is_stable() {
                return Err(Refusal::Busy);
            }
            let waiting = state.conversation.queued().map(|(_, turn)| turn.content.len());
            let (n_waiting, n_bytes) = waiting.fold((0, 0), |(n, bytes), length| (n + 1, bytes + length));
            if n_waiting >= MAX_WAITING || n_bytes + content.len() > MAX_WAITING_BYTES {
                return Err(Refusal::Full);
            }
            let budget = budget::read(&self.options.directory);
            let checked = budget.and_then(|budget| budget.check(&state.conversation.usage()));
            checked.map_err(Refusal::Budget)?;
        }
        self.accept(Source::User, task_id, content).await.map_err(Refusal::Journal)
    }

    pub(super) async fn accept(
        &mut self,
        source: Source,
        task_id: Option<TaskKey>,
        content: String,
    ) -> Result<(), JournalError> {
        let accepted = Entry::Accepted { at: Utc::now(), source, task_id, content };
        self.journal.append(&accepted).await?;
        self.state.send_modify(|state| state.conversation.apply(accepted));
        Ok(())
    }
}
