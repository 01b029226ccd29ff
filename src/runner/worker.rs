//! The one loop that owns the conversation: takes messages, runs them one after another, records how they end.

use std::time::Duration;

use chrono::{DateTime, Utc};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::conversation::{Entry, Interruption, Outcome, Progress, Source, TaskKey};
use super::journal::{Journal, JournalError};
use super::options::Options;
use super::process::{Finished, Launch};
use super::report::{Report, Reporter};
use super::state::State;
use super::{descendants, files, git, locks, process};
use crate::domain::id::RunId;
use crate::engine::Usage;

/// How long to wait for a disk that takes no more before trying again.
const PAUSE: Duration = Duration::from_secs(1);

/// What the HTTP side asks for.
#[derive(Debug)]
pub(super) enum Command {
    Submit {
        content: String,
        task_id: Option<TaskKey>,
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Ends the run under way, or only if it is this task's.
    Interrupt {
        task_id: Option<TaskKey>,
    },
}

/// Why a message is not taken.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    #[error("message can only be sent when the agent is waiting for user input")]
    Busy,
    #[error("the agent is stopping")]
    Stopping,
    #[error("the message cannot be kept")]
    Journal(#[source] JournalError),
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) options: Options,
    pub(super) journal: Journal,
    pub(super) state: watch::Sender<State>,
    pub(super) reporter: Reporter,
    pub(super) stop: CancellationToken,
}

impl Worker {
    /// Comes to terms with what an earlier runner left: a run cut short, and a prompt not yet taken.
    pub(super) async fn settle(&mut self) {
        if let Some((turn, run)) = self.cut_short() {
            descendants::end(run, self.options.ladder.terminate).await;
            let finished = Finished { end: None, usage: Usage::default() };
            self.conclude(turn, finished, Interruption::Crash).await;
        }
        if !self.state.borrow().conversation.has_prompt() {
            self.take_prompt().await;
        }
        self.look_around().await;
    }

    /// Works until it is asked to stop. What is still queued then waits for the next runner.
    pub(super) async fn work(mut self, mut inbox: mpsc::Receiver<Command>) {
        while !self.stop.is_cancelled() {
            let next = self.state.borrow().conversation.next_queued();
            if let Some(turn) = next {
                self.run(turn, &mut inbox).await;
                continue;
            }
            tokio::select! {
                () = self.stop.cancelled() => {}
                command = inbox.recv() => match command {
                    Some(command) => self.obey(command, None).await,
                    None => return,
                },
            }
        }
    }

    async fn run(&mut self, turn: usize, inbox: &mut mpsc::Receiver<Command>) {
        let run = RunId::fresh();
        let Ok(message) = self.begin(turn, run).await else { return };
        let (options, state) = (self.options.clone(), self.state.clone());
        let launch = Launch {
            engine: &*options.engine,
            message: &message,
            directory: &options.work_directory,
            run,
            ladder: options.ladder,
        };
        let interrupt = CancellationToken::new();
        let heard = |said: &str| state.send_modify(|state| state.conversation.hear(turn, said));
        let running = process::run(launch, &interrupt, heard);
        tokio::pin!(running);
        let finished = loop {
            tokio::select! {
                finished = &mut running => break finished,
                () = self.stop.cancelled(), if !interrupt.is_cancelled() => interrupt.cancel(),
                Some(command) = inbox.recv() => self.obey(command, Some((turn, &interrupt))).await,
            }
        };
        let by = if self.stop.is_cancelled() { Interruption::Stop } else { Interruption::Request };
        self.conclude(turn, finished, by).await;
    }

    /// Writes down that the turn is begun, because from here on it must never begin again.
    async fn begin(&mut self, turn: usize, run: RunId) -> Result<String, JournalError> {
        let generation = self.options.generation;
        let started = Entry::Started { at: Utc::now(), turn, run: run.0, generation };
        self.record(&started).await?;
        self.state.send_modify(|state| state.conversation.apply(started));
        let message = self.state.borrow().conversation.turns[turn].content.clone();
        self.reporter.report(Report::working(&message));
        Ok(message)
    }

    async fn obey(&mut self, command: Command, running: Option<(usize, &CancellationToken)>) {
        match command {
            Command::Submit { content, task_id, answer } => {
                // Whoever asked may be gone; the message is kept all the same.
                let _gone = answer.send(self.submit(content, task_id).await);
            }
            Command::Interrupt { task_id } => {
                let Some((turn, interrupt)) = running else { return };
                let state = self.state.borrow();
                if task_id.is_none() || state.conversation.turns[turn].task_id == task_id {
                    interrupt.cancel();
                }
            }
        }
    }

    /// Takes a message: once for each task, on disk before it is promised, and only a task waits for its turn.
    async fn submit(&mut self, content: String, task_id: Option<TaskKey>) -> Result<(), Refusal> {
        if self.stop.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        let known = |task_id: &TaskKey| self.state.borrow().conversation.has_task(task_id);
        if task_id.as_ref().is_some_and(known) {
            return Ok(());
        }
        if task_id.is_none() && !self.state.borrow().conversation.is_stable() {
            return Err(Refusal::Busy);
        }
        self.accept(Source::User, task_id, content).await.map_err(Refusal::Journal)
    }

    async fn accept(
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

    async fn take_prompt(&mut self) {
        let prompt = match files::prompt(&self.options.directory) {
            Ok(Some(prompt)) => prompt,
            Ok(None) => return,
            Err(error) => return tracing::error!(%error, "the workspace's first message cannot be read"),
        };
        if let Err(error) = self.accept(Source::Prompt, None, prompt).await {
            tracing::error!(%error, "the workspace's first message cannot be kept");
        }
    }

    /// Records the end of a turn, looks at what it left, and only then shows both together.
    async fn conclude(&mut self, turn: usize, finished: Finished, by: Interruption) {
        // Before the record: a runner that is killed in between does this again.
        locks::free(&self.options.work_directory, self.began(turn)).await;
        let outcome = finished.end.map_or(Outcome::Interrupted { by }, Outcome::from);
        let ended = Entry::Ended {
            at: Utc::now(),
            turn,
            text: self.answer(turn, &outcome),
            outcome: outcome.clone(),
            usage: finished.usage,
        };
        // Without it the next runner takes the run for one that was cut short, which is nearest to the truth.
        let _unrecorded = self.record(&ended).await;
        let looked =
            if self.stop.is_cancelled() { None } else { git::look(&self.options.work_directory).await };
        let mut usage = self.state.borrow().conversation.usage();
        usage += finished.usage;
        files::leave_metadata(&self.options.directory, looked.as_ref(), usage);
        self.state.send_modify(|state| {
            state.conversation.apply(ended);
            state.git = looked.or(state.git.take());
        });
        self.reporter.report(Report::of(&outcome));
    }

    fn began(&self, turn: usize) -> DateTime<Utc> {
        self.state.borrow().conversation.turns[turn].since()
    }

    /// What the agent said, and of an interruption that it was one.
    fn answer(&self, turn: usize, outcome: &Outcome) -> String {
        let said = match &self.state.borrow().conversation.turns[turn].progress {
            Progress::Working { text, .. } => text.text(),
            Progress::Queued | Progress::Ended { .. } => String::new(),
        };
        match outcome {
            Outcome::Interrupted { by } => format!("{said}\n{}", by.text()).trim_start().to_owned(),
            Outcome::Failed { text, .. } if said.is_empty() => text.clone(),
            Outcome::Complete { .. } | Outcome::Question { .. } | Outcome::Failed { .. } => said,
        }
    }

    async fn look_around(&mut self) {
        let looked = git::look(&self.options.work_directory).await;
        files::leave_metadata(
            &self.options.directory,
            looked.as_ref(),
            self.state.borrow().conversation.usage(),
        );
        self.state.send_modify(|state| state.git = looked);
    }

    /// Writes down what has to be known before going on, waiting for a full disk as long as we may.
    async fn record(&mut self, entry: &Entry) -> Result<(), JournalError> {
        loop {
            let Err(error) = self.journal.append(entry).await else { return Ok(()) };
            tracing::error!(%error, "the journal cannot be written; trying again");
            tokio::select! {
                () = self.stop.cancelled() => return Err(error),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    fn cut_short(&self) -> Option<(usize, RunId)> {
        let state = self.state.borrow();
        let mut turns = state.conversation.turns.iter().enumerate();
        turns.find_map(|(number, turn)| match turn.progress {
            Progress::Working { run, .. } => Some((number, run)),
            Progress::Queued | Progress::Ended { .. } => None,
        })
    }
}
