//! What the worker is asked for from outside: messages to take, runs to end.

use std::time::Duration;

use chrono::Utc;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Worker;
use super::published::Published;
use crate::engine::budget::BudgetError;
use crate::engine::{Count, Usage};
use crate::runner::budget;
use crate::runner::conversation::{Known, Progress};
use crate::runner::entry::{Entry, Interruption, Outcome, Source, TaskKey};
use crate::runner::journal::JournalError;

/// So much may wait; whoever has more keeps it until there is room.
const MAX_WAITING: usize = 256;
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;
/// An engine that has not said by then that it has its message is interrupted all the same.
const LONGEST_HOLD: Duration = Duration::from_secs(8);
/// An engine that cannot say so has its message after this time.
const OPENING: Duration = Duration::from_secs(2);

/// What the HTTP side asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Submit {
        message: Submitted,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Ends the run under way, or only if it is this task's.
    Interrupt {
        task_id: Option<TaskKey>,
    },
    /// Ends this task, also while it still waits for its turn or has not come yet.
    Cancel {
        task_id: TaskKey,
    },
}

/// A message of a user.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) content: String,
    pub(crate) task_id: Option<TaskKey>,
    /// It goes on with what the engine's session knows.
    pub(crate) is_continued: bool,
}

/// The run under way, as far as it can be interrupted.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) turn: usize,
    pub(super) interrupt: CancellationToken,
    /// Has the engine said that it has the message?
    pub(super) has_message: bool,
    /// When its process was started.
    started: Option<Instant>,
    /// When an interruption that waits for that has waited long enough.
    pub(super) held_until: Option<Instant>,
    pub(super) published: Published,
}

impl Running {
    pub(super) fn of(turn: usize) -> Self {
        Self {
            turn,
            interrupt: CancellationToken::new(),
            has_message: false,
            started: None,
            held_until: None,
            published: Published::default(),
        }
    }

    /// What the workspace started with is delivered before it is interrupted: later messages build on it.
    fn interrupt_prompt(&mut self) {
        if self.has_message {
            self.interrupt.cancel();
        } else {
            let until = self.started.map_or_else(|| Instant::now() + LONGEST_HOLD, |at| at + OPENING);
            self.held_until.get_or_insert(until);
        }
    }

    /// An engine that names no session has its message as soon as it had time to open its conversation.
    pub(super) fn started(&mut self) {
        let now = Instant::now();
        self.started = Some(now);
        self.held_until = self.held_until.map(|until| until.min(now + OPENING));
    }

    pub(super) fn delivered(&mut self) {
        self.has_message = true;
        if self.held_until.is_some() {
            self.interrupt.cancel();
        }
    }

    /// Returns when an interruption has waited long enough for its message to be delivered.
    pub(super) async fn held(&self) {
        match self.held_until {
            Some(until) if !self.interrupt.is_cancelled() => tokio::time::sleep_until(until).await,
            Some(_) | None => std::future::pending().await,
        }
    }
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
    pub(super) async fn obey(&mut self, command: Command, running: Option<&mut Running>) {
        match command {
            Command::Submit { message, answer } => {
                // Whoever asked may be gone; the message is kept all the same.
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

    /// Ends a task that never began, or that has not come. Without a record of it the task stays as it is.
    async fn withdraw(&mut self, task_id: TaskKey) {
        // What the workspace starts with begins before anything can be asked for.
        if task_id.is_prompt() {
            return;
        }
        let at = Utc::now();
        let over = match self.state.borrow().conversation.task(&task_id) {
            Known::Turn(turn, waiting) if matches!(waiting.progress, Progress::Queued) => {
                let by = Interruption::Request;
                let (outcome, text) = (Outcome::Interrupted { by }, by.text().to_owned());
                Some((turn, outcome, text))
            }
            Known::Turn(..) | Known::Forgotten | Known::Withdrawn(_) => return,
            Known::Never => None,
        };
        let entry = match over {
            Some((turn, outcome, text)) => {
                let (usage, session, is_unknown) = (Usage::default(), Count::default(), false);
                Entry::Ended { at, turn, outcome, text, usage, session, is_unknown }
            }
            None => Entry::Withdrawn { at, task_id },
        };
        match self.journal.append(&entry).await {
            Ok(()) => self.state.send_modify(|state| state.conversation.apply(entry)),
            Err(error) => tracing::error!(%error, "a task could not be taken out of the queue"),
        }
    }

    /// Takes a message: once for each task, on disk before it is promised, and only a task waits for its turn.
    async fn submit(&mut self, message: Submitted) -> Result<(), Refusal> {
        let Submitted { task_id, content, .. } = &message;
        if self.stop.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        {
            let state = self.state.borrow();
            let known = task_id.as_ref().map(|task_id| state.conversation.task(task_id));
            if matches!(known, Some(Known::Turn(..) | Known::Forgotten | Known::Withdrawn(_))) {
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
