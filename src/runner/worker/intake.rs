//! Handles commands to the worker: messages to accept, runs to end.

use chrono::Utc;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::published::Published;
use crate::engine::budget::BudgetError;
use crate::engine::{ConversationUsage, Usage};
use crate::runner::budget;
use crate::runner::conversation::{Progress, TaskLookup};
use crate::runner::entry::{Entry, Interruption, Outcome, Source, TaskKey};
use crate::runner::journal::JournalError;
use crate::runner::limits::RunnerLimits;

/// Limits on the queue; clients with further messages retry later.
const MAX_WAITING: usize = 256;
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// A command of the HTTP side.
#[derive(Debug)]
pub(crate) enum Command {
    Submit {
        message: Submitted,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Ends the current run, or only if it belongs to this task.
    Interrupt {
        task_id: Option<TaskKey>,
    },
    /// Ends this task, also if it is queued or has not arrived yet.
    Cancel {
        task_id: TaskKey,
    },
}

/// A message of a user.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) content: String,
    pub(crate) task_id: Option<TaskKey>,
    /// It continues the engine's session.
    pub(crate) is_continued: bool,
}

/// The current run, as far as interruptions need it.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) turn: usize,
    pub(super) interrupt: CancellationToken,
    /// Whether the engine has confirmed the message.
    pub(super) has_message: bool,
    /// When its process was started.
    started: Option<Instant>,
    /// The deadline of an interruption that waits for the confirmation.
    pub(super) held_until: Option<Instant>,
    pub(super) published: Published,
    limits: RunnerLimits,
}

impl Running {
    pub(super) fn of(turn: usize, limits: RunnerLimits) -> Self {
        Self {
            turn,
            interrupt: CancellationToken::new(),
            has_message: false,
            started: None,
            held_until: None,
            published: Published::every(limits.usage_interval),
            limits,
        }
    }

    /// The initial prompt is delivered before it is interrupted: later messages build on it.
    fn interrupt_prompt(&mut self) {
        if self.has_message {
            self.interrupt.cancel();
        } else {
            let limits = &self.limits;
            let until = self.started.map_or_else(|| Instant::now() + limits.hold, |at| at + limits.opening);
            self.held_until.get_or_insert(until);
        }
    }

    /// An engine without sessions has its message once it had time to open its conversation.
    pub(super) fn started(&mut self) {
        let now = Instant::now();
        self.started = Some(now);
        self.held_until = self.held_until.map(|until| until.min(now + self.limits.opening));
    }

    pub(super) fn delivered(&mut self) {
        self.has_message = true;
        if self.held_until.is_some() {
            self.interrupt.cancel();
        }
    }

    /// Returns at the deadline of a waiting interruption.
    pub(super) async fn held(&self) {
        match self.held_until {
            Some(until) if !self.interrupt.is_cancelled() => tokio::time::sleep_until(until).await,
            Some(_) | None => std::future::pending().await,
        }
    }
}

/// Why a message is refused.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error("message can only be sent when the agent is waiting for user input")]
    Busy,
    #[error("the queue of this agent is full; send the message again later")]
    Full,
    #[error(transparent)]
    Budget(BudgetError),
    #[error("the agent is stopping")]
    Stopping,
    #[error("the message cannot be stored")]
    Journal(#[source] JournalError),
}

impl Worker {
    pub(super) async fn handle(&mut self, command: Command, running: Option<&mut Running>) {
        match command {
            Command::Submit { message, answer } => {
                // The client may be gone; the message is kept anyway.
                let _gone = answer.send(self.submit(message).await);
            }
            Command::Interrupt { task_id: None } => {
                running.into_iter().for_each(|running| running.interrupt.cancel());
            }
            Command::Interrupt { task_id: Some(task_id) } => self.interrupt(&task_id, running),
            Command::Cancel { task_id } => {
                self.interrupt(&task_id, running);
                self.withdraw(task_id).await;
            }
        }
    }

    fn interrupt(&self, task_id: &TaskKey, running: Option<&mut Running>) {
        let Some(running) = running else { return };
        let state = self.state.borrow();
        let Some(turn) = state.conversation.turn(running.turn).filter(|turn| turn.is_named(task_id)) else {
            return;
        };
        match turn.source {
            Source::Prompt => running.interrupt_prompt(),
            Source::User => running.interrupt.cancel(),
        }
    }

    /// Ends a task that never began or has not arrived. If that cannot be recorded, the task is unchanged.
    async fn withdraw(&mut self, task_id: TaskKey) {
        // The initial prompt begins before any command can arrive.
        if task_id.is_prompt() {
            return;
        }
        let at = Utc::now();
        let over = match self.state.borrow().conversation.task(&task_id) {
            TaskLookup::Turn(turn, waiting) if matches!(waiting.progress, Progress::Queued) => {
                let by = Interruption::Request;
                let (outcome, text) = (Outcome::Interrupted { by }, by.text().to_owned());
                Some((turn, outcome, text))
            }
            TaskLookup::Turn(..) | TaskLookup::Forgotten | TaskLookup::Withdrawn(_) => return,
            TaskLookup::Never => None,
        };
        let entry = match over {
            Some((turn, outcome, text)) => {
                let (usage, session, is_unknown) = (Usage::default(), ConversationUsage::default(), false);
                Entry::Ended { at, turn, outcome, text, usage, session, is_unknown }
            }
            None => Entry::Withdrawn { at, task_id },
        };
        match self.journal.append(&entry).await {
            Ok(()) => self.state.send_modify(|state| state.conversation.apply(entry)),
            Err(error) => tracing::error!(%error, "a task could not be taken out of the queue"),
        }
    }

    /// Accepts a message: once per task, on disk before the acknowledgement; only tasks are queued.
    async fn submit(&mut self, message: Submitted) -> Result<(), Refusal> {
        let Submitted { task_id, content, .. } = &message;
        if self.stop.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        {
            let state = self.state.borrow();
            let known = task_id.as_ref().map(|task_id| state.conversation.task(task_id));
            if matches!(known, Some(TaskLookup::Turn(..) | TaskLookup::Forgotten | TaskLookup::Withdrawn(_)))
            {
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
        self.accept(Source::User, message).await.map_err(Refusal::Journal)
    }

    pub(super) async fn accept(&mut self, source: Source, message: Submitted) -> Result<(), JournalError> {
        let Submitted { content, task_id, is_continued } = message;
        let accepted = Entry::Accepted { at: Utc::now(), source, task_id, content, is_continued };
        self.journal.append(&accepted).await?;
        self.state.send_modify(|state| state.conversation.apply(accepted));
        Ok(())
    }
}
