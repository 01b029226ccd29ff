//! The loop that owns the conversation: accepts messages, runs them one after another, records their ends.

mod intake;
mod job;
mod published;

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::conversation::{Progress, Turn};
use super::entry::{Entry, Interruption, Outcome, Session, Source};
use super::forget::BOUNDS;
use super::journal::{Journal, JournalError};
use super::options::Options;
use super::process::{self, Finish, Finished, ProcessEvent, descendants};
use super::provisioning::Start;
use super::report::{Report, Reporter};
use super::state::State;
use super::{budget, files, git, locks};
use crate::domain::id::RunId;
use crate::engine::budget::{BudgetError, stopped};
use crate::engine::{ConversationUsage, EngineEnd, FailureKind, RunUsage, Usage};
use crate::git::state::GitState;
use intake::Running;
pub(crate) use intake::{Command, Refusal, Submitted};
use job::{Done, Job, not_started};

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) options: Options,
    pub(super) journal: Journal,
    pub(super) state: watch::Sender<State>,
    pub(super) reporter: Reporter,
    pub(super) stop: CancellationToken,
    /// The start of the workspace.
    pub(super) start: Start,
    /// Only the first run waits for the provisioning.
    pub(super) has_waited: bool,
}

impl Worker {
    /// Settles the state of an earlier runner: an interrupted run, and an unaccepted prompt.
    pub(super) async fn settle(&mut self) {
        if let Some((turn, run, spent)) = self.cut_short() {
            let unknown_engine = None;
            descendants::end(run, unknown_engine, self.options.limits.end()).await;
            let spent = self.recalled(turn, spent).await;
            let finished = Finished::of(self.options.engine.word(), Finish::Interrupted, spent);
            self.conclude(turn, Done { finished, note: None, is_begun: true }, Interruption::Crash).await;
        }
        if !self.state.borrow().conversation.has_prompt() {
            self.take_prompt().await;
        }
        self.note_base().await;
        self.look_around().await;
    }

    /// Works until it is asked to stop. Queued turns then wait for the next runner.
    pub(super) async fn work(mut self, mut inbox: mpsc::Receiver<Command>) {
        while !self.stop.is_cancelled() {
            // A command that arrived while a turn was being concluded is about that turn, never about the next.
            while let Ok(command) = inbox.try_recv() {
                self.handle(command, None).await;
            }
            let next = self.state.borrow().conversation.queued().map(|(number, _)| number).next();
            if let Some(turn) = next {
                self.run(turn, &mut inbox).await;
                continue;
            }
            tokio::select! {
                () = self.stop.cancelled() => {}
                command = inbox.recv() => match command {
                    Some(command) => self.handle(command, None).await,
                    None => return,
                },
            }
        }
    }

    async fn run(&mut self, turn: usize, inbox: &mut mpsc::Receiver<Command>) {
        let used = self.state.borrow().conversation.usage();
        if let Err(error) = budget::left(&self.options.directory, &used) {
            return self.refuse(turn, &error).await;
        }
        let run = RunId::fresh();
        let Ok(message) = self.begin(turn, run).await else { return };
        let job = self.job(turn, message, (run, used));
        let mut under_way = Running::of(turn, self.options.limits);
        let (interrupt, state) = (under_way.interrupt.clone(), self.state.clone());
        let (sender, mut events) = mpsc::unbounded_channel();
        // Text is shown at once; facts to be recorded go to the loop below.
        let emit = |event: ProcessEvent| match event {
            ProcessEvent::Text(text) => {
                state.send_modify(|state| state.conversation.append_answer(turn, &text));
            }
            other => sender.send(other).unwrap_or_default(),
        };
        let running = job.run(&interrupt, emit);
        tokio::pin!(running);
        let done = loop {
            tokio::select! {
                done = &mut running => break done,
                () = self.stop.cancelled(), if !interrupt.is_cancelled() => interrupt.cancel(),
                () = under_way.held() => interrupt.cancel(),
                () = under_way.published.due() => self.publish(&mut under_way),
                Some(event) = events.recv() => self.note(&mut under_way, event).await,
                Some(command) = inbox.recv() => self.handle(command, Some(&mut under_way)).await,
            }
        };
        while let Ok(event) = events.try_recv() {
            self.note(&mut under_way, event).await;
        }
        let done = self.unless_stopped(done).await;
        // A wait that was interrupted is repeated by the next run.
        self.has_waited |= done.is_begun;
        let by = self.interruption(&done, under_way.has_message);
        self.conclude(turn, done, by).await;
    }

    /// Whether the next runner can resume a run that is interrupted now. An engine that has not yet named its
    /// session has done nothing.
    fn interruption(&self, done: &Done, has_message: bool) -> Interruption {
        let has_session = self.state.borrow().conversation.session.is_some();
        match (self.stop.is_cancelled(), done.is_begun) {
            (false, _) => Interruption::Request,
            (true, false) => Interruption::Unbegun,
            (true, true) if has_message => Interruption::Park,
            (true, true) if self.options.engine.word().names_session() => Interruption::Unbegun,
            (true, true) if has_session => Interruption::Park,
            (true, true) => Interruption::Stop,
        }
    }

    /// A stop of the workspace ends all its processes at once, and the engine may end before we learn of the stop:
    /// that is no failure of the engine.
    async fn unless_stopped(&self, done: Done) -> Done {
        let is_crash = matches!(
            done.finished.finish,
            Finish::Reported(EngineEnd::Failed { kind: FailureKind::Crashed, .. })
        );
        if !is_crash
            || tokio::time::timeout(self.options.limits.stop_news, self.stop.cancelled()).await.is_err()
        {
            return done;
        }
        Done { finished: Finished { finish: Finish::Interrupted, ..done.finished }, ..done }
    }

    fn job(&mut self, turn: usize, message: String, (run, used): (RunId, Usage)) -> Job {
        let provisioning_wait =
            if self.has_waited { Duration::ZERO } else { self.options.limits.provisioning };
        let (session, is_continued) = {
            let conversation = &self.state.borrow().conversation;
            (conversation.session.clone(), conversation.turn(turn).is_some_and(|turn| turn.is_continued))
        };
        let (options, start, stop) = (self.options.clone(), self.start, self.stop.clone());
        Job { options, message, is_continued, run, session, used, start, provisioning_wait, stop }
    }

    /// Ends a turn that was accepted before the budget was used up.
    async fn refuse(&mut self, turn: usize, error: &BudgetError) {
        let session = self.state.borrow().conversation.session.as_ref().map(|session| session.spent);
        let finished = Finished::unspent(not_started(error), session.unwrap_or_default());
        let done = Done { finished, note: None, is_begun: false };
        self.conclude(turn, done, Interruption::Request).await;
    }

    /// Records that the turn has begun, because from here on it must never begin again.
    async fn begin(&mut self, turn: usize, run: RunId) -> Result<String, JournalError> {
        self.note_base().await;
        let generation = self.options.generation;
        let started = Entry::Started { at: Utc::now(), turn, run: run.0, generation };
        self.record(&started).await?;
        self.state.send_modify(|state| state.conversation.apply(started));
        let content = self.state.borrow().conversation.turn(turn).map(|turn| turn.content.clone());
        let message = content.unwrap_or_default();
        self.reporter.report(Report::working(&message));
        Ok(message)
    }

    /// Handles the events of a run other than text.
    async fn note(&mut self, running: &mut Running, event: ProcessEvent) {
        let turn = running.turn;
        match event {
            ProcessEvent::Text(text) => {
                self.state.send_modify(|state| state.conversation.append_answer(turn, &text));
            }
            ProcessEvent::Started if self.options.engine.word().names_session() => {}
            ProcessEvent::Started => running.started(),
            ProcessEvent::Session(id) => {
                self.remember(id).await;
                running.delivered();
            }
            ProcessEvent::Usage(RunUsage { run, session }) => {
                // Recorded each time: a kill must not make spent money look unspent.
                self.record_if_possible(&Entry::Spent { turn, usage: run, session }).await;
                self.state.send_modify(|state| state.conversation.set_usage(turn, run, session));
                running.published.outdated(Instant::now());
            }
        }
    }

    /// Publishes the usage so far, including the running turn: its end may never be seen.
    fn publish(&self, running: &mut Running) {
        running.published.renewed(Instant::now());
        let used = self.state.borrow().conversation.usage_record();
        files::leave_metadata(&self.options.directory, None, used);
    }

    async fn remember(&mut self, id: String) {
        let engine = self.options.engine.word().word().to_owned();
        let session = Session { engine, id, spent: ConversationUsage::default() };
        let is_known = self.state.borrow().conversation.session.as_ref().is_some_and(|known| {
            (known.engine.as_str(), known.id.as_str()) == (session.engine.as_str(), session.id.as_str())
        });
        if !is_known {
            let entry = Entry::Session(session);
            self.record_if_possible(&entry).await;
            self.state.send_modify(|state| state.conversation.apply(entry));
        }
    }

    async fn take_prompt(&mut self) {
        let prompt = match files::prompt(&self.options.directory) {
            Ok(Some(prompt)) => prompt,
            Ok(None) => return,
            Err(error) => return tracing::error!(%error, "the workspace's first message cannot be read"),
        };
        let prompt = Submitted { content: prompt, task_id: None, is_continued: false };
        if let Err(error) = self.accept(Source::Prompt, prompt).await {
            tracing::error!(%error, "the workspace's first message cannot be stored");
        }
    }

    /// Records the end of a turn, reads the repository, and then publishes both together.
    async fn conclude(&mut self, turn: usize, done: Done, by: Interruption) {
        if let Some(began) = self.began(turn) {
            // Before the record: a runner that is killed in between repeats this.
            locks::free(&self.options.work_directory, began).await;
        }
        let Finished { finish, spent, is_unknown } = done.finished;
        let outcome = outcome(finish, by);
        let ended = Entry::Ended {
            at: Utc::now(),
            turn,
            text: self.answer(turn, &outcome),
            outcome: outcome.clone(),
            usage: spent.run,
            session: spent.session,
            is_unknown,
        };
        // Without the record the next runner treats the run as interrupted, which is closest to the truth.
        let _unrecorded = self.record(&ended).await;
        let looked = if self.stop.is_cancelled() { None } else { self.look().await };
        self.state.send_modify(|state| {
            state.conversation.set_usage(turn, spent.run, spent.session);
        });
        let mut used = self.state.borrow().conversation.usage_record();
        used.unknown_runs = used.unknown_runs.saturating_add(u64::from(is_unknown));
        files::leave_metadata(&self.options.directory, looked.as_ref(), used);
        self.state.send_modify(|state| {
            state.conversation.apply(ended);
            state.conversation.forget(BOUNDS);
            // An earlier state says nothing about this turn.
            state.git = looked;
        });
        self.reporter.report(Report::of(&outcome).noting(done.note));
        self.shorten().await;
    }

    fn began(&self, turn: usize) -> Option<DateTime<Utc>> {
        self.state.borrow().conversation.turn(turn).map(Turn::since)
    }

    /// The agent's answer, with a note if it was interrupted.
    fn answer(&self, turn: usize, outcome: &Outcome) -> String {
        let answer = match self.state.borrow().conversation.turn(turn).map(|turn| &turn.progress) {
            Some(Progress::Working { text, .. }) => text.text(),
            Some(Progress::Queued | Progress::Ended { .. }) | None => String::new(),
        };
        match outcome {
            Outcome::Interrupted { by } => format!("{answer}\n{}", by.text()).trim_start().to_owned(),
            Outcome::Failed { kind: FailureKind::Budget, text } => {
                format!("{answer}\n{text}").trim_start().to_owned()
            }
            Outcome::Failed { text, .. } if answer.is_empty() => text.clone(),
            Outcome::Complete { .. } | Outcome::Question { .. } | Outcome::Failed { .. } => answer,
        }
    }

    /// The usage of an interrupted run: its engine may have continued for a while and recorded it.
    async fn recalled(&self, turn: usize, known: RunUsage) -> RunUsage {
        let session = self.state.borrow().conversation.session.clone();
        let (Some(session), Some(since)) = (session, self.began(turn)) else { return known };
        let Ok(engine) = self.options.engine.get().await else { return known };
        let is_its_own = engine.word().word() == session.engine;
        let Some(reader) = engine.record_reader(&session.id, since).filter(|_| is_its_own) else {
            return known;
        };
        match process::recall(reader).await {
            Some(recorded) if recorded.run.tokens() > known.run.tokens() => {
                RunUsage { run: recorded.run, ..known }
            }
            Some(_) | None => known,
        }
    }

    /// If the workspace does not name the start commit, it is the repository's commit before the first turn. A
    /// startup script may still change it until then.
    async fn note_base(&mut self) {
        let known = {
            let conversation = &self.state.borrow().conversation;
            if self.options.base.is_some() || conversation.has_begun() {
                return;
            }
            conversation.base.clone()
        };
        let Some(commit) = git::head(&self.options.work_directory).await else { return };
        if known.as_ref() != Some(&commit) {
            let entry = Entry::Base { commit };
            self.record_if_possible(&entry).await;
            self.state.send_modify(|state| state.conversation.apply(entry));
        }
    }

    async fn look(&self) -> Option<GitState> {
        let noted = self.state.borrow().conversation.base.clone();
        let base = self.options.base.clone().or(noted);
        git::look(&self.options.work_directory, base.as_deref()).await
    }

    async fn look_around(&mut self) {
        let looked = self.look().await;
        files::leave_metadata(
            &self.options.directory,
            looked.as_ref(),
            self.state.borrow().conversation.usage_record(),
        );
        self.state.send_modify(|state| {
            state.conversation.forget(BOUNDS);
            state.git = looked;
        });
        self.shorten().await;
    }

    /// Rewrites a journal with many obsolete facts.
    async fn shorten(&mut self) {
        if !self.journal.is_long() {
            return;
        }
        let entries = self.state.borrow().conversation.entries();
        if let Err(error) = self.journal.replace(&entries).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the journal could not be compacted");
        }
    }

    /// Records a fact that must be durable before continuing; waits for space on a full disk as long as possible.
    async fn record(&mut self, entry: &Entry) -> Result<(), JournalError> {
        loop {
            let Err(error) = self.journal.append(entry).await else { return Ok(()) };
            tracing::error!(%error, "the journal cannot be written; retrying");
            tokio::select! {
                () = self.stop.cancelled() => return Err(error),
                () = tokio::time::sleep(self.options.limits.write_retry) => {}
            }
        }
    }

    /// Records a fact that is useful but holds nothing up.
    async fn record_if_possible(&mut self, entry: &Entry) {
        if let Err(error) = self.journal.append(entry).await {
            tracing::warn!(%error, "the journal cannot be written");
        }
    }

    fn cut_short(&self) -> Option<(usize, RunId, RunUsage)> {
        let state = self.state.borrow();
        let session = state.conversation.session.as_ref().map(|session| session.spent).unwrap_or_default();
        state.conversation.numbered().find_map(|(number, turn)| match turn.progress {
            Progress::Working { run, usage, .. } => Some((number, run, RunUsage { run: usage, session })),
            Progress::Queued | Progress::Ended { .. } => None,
        })
    }
}

fn outcome(finish: Finish, by: Interruption) -> Outcome {
    match finish {
        Finish::Reported(end) => Outcome::from(end),
        Finish::Interrupted => Outcome::Interrupted { by },
        Finish::OverBudget => Outcome::Failed { kind: FailureKind::Budget, text: stopped() },
    }
}
