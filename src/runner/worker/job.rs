//! One run with its preparation: the engine, its provisioning, and its session.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::id::RunId;
use crate::domain::run::EngineOutput;
use crate::engine::budget::{Budget, BudgetError};
use crate::engine::template::Values;
use crate::engine::{self, Engine, EngineEnd, EngineWord, FailureKind, Request, Usage};
use crate::files::regular;
use crate::runner::entry::Session;
use crate::runner::options::Options;
use crate::runner::process::{self, Finish, Finished, Launch, ProcessEvent};
use crate::runner::provisioning::Start;
use crate::runner::{budget, git, notes, provisioning};

const WITHOUT_FLEET: &str = "[without the fleet's tools: this agent has no address for them]";
const NEW_SESSION: &str = "[the engine has lost the conversation; it starts a new one]";

/// The inputs of a run, copied before it begins, so that the worker can handle commands meanwhile.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) options: Options,
    pub(super) message: String,
    /// It continues the engine's session and never starts a new one.
    pub(super) is_continued: bool,
    pub(super) run: RunId,
    pub(super) session: Option<Session>,
    /// The usage before this run.
    pub(super) used: Usage,
    /// The start whose provisioning applies, and how long to wait for it.
    pub(super) start: Start,
    pub(super) provisioning_wait: Duration,
    /// The workspace is being stopped.
    pub(super) stop: CancellationToken,
}

/// The result, and a note for people about how it was done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) finished: Finished,
    pub(super) note: Option<&'static str>,
    /// Whether the engine was started.
    pub(super) is_begun: bool,
}

impl Job {
    pub(super) async fn run(
        self,
        interrupt: &CancellationToken,
        mut on_event: impl FnMut(ProcessEvent),
    ) -> Done {
        let prepared = tokio::select! {
            biased;
            () = interrupt.cancelled() => Err(Finish::Interrupted),
            prepared = self.prepare() => prepared,
        };
        let (engine, mut request, budget) = match prepared {
            Ok(prepared) => prepared,
            Err(finish) => return Done { finished: self.unspent(finish), note: None, is_begun: false },
        };
        let is_alone = request.fleet.is_none() && engine.word().calls_tools();
        let note = is_alone.then_some(WITHOUT_FLEET);
        note.into_iter().for_each(|note| on_event(ProcessEvent::Text(format!("{note}\n"))));
        loop {
            let is_resumed = matches!(request.session, engine::Session::Resume { .. });
            let finished =
                process::run(self.launch(&*engine, request.clone(), budget), interrupt, &mut on_event).await;
            // A lost session means that the engine did nothing, so nothing is done or paid twice.
            if finished.finish != Finish::Reported(EngineEnd::SessionLost) || !is_resumed {
                return Done { finished, note, is_begun: true };
            }
            if self.is_continued {
                return Done { finished: self.unspent(Finish::Reported(unknown())), note, is_begun: true };
            }
            on_event(ProcessEvent::Text(format!("{NEW_SESSION}\n")));
            request.session = engine::Session::Fresh { id: Uuid::new_v4() };
        }
    }

    async fn prepare(&self) -> Result<(Arc<dyn Engine>, Request, Budget), Finish> {
        let missing = |error: engine::installed::Unavailable| {
            let (kind, text) = (FailureKind::EngineMissing, error.to_string());
            Finish::Reported(EngineEnd::Failed { kind, text })
        };
        let engine = self.options.engine.get().await.map_err(missing)?;
        let session = self.session_for(engine.word());
        if self.is_continued && !matches!(session, engine::Session::Resume { .. }) {
            return Err(Finish::Reported(unknown()));
        }
        let (directory, start) = (&self.options.directory, self.start);
        if engine.word().calls_tools() {
            let poll = self.options.limits.provisioning_poll;
            provisioning::wait(directory, start, self.provisioning_wait, poll).await;
        }
        // The budget of a first run comes with its provisioning.
        let budget = budget::left(directory, &self.used).map_err(|error| not_started(&error))?;
        let request = Request {
            message: self.message.clone(),
            session,
            role: provisioning::role(directory),
            notes: engine.notes_file().and_then(|name| notes::read(&self.options.work_directory, name)),
            settings: engine.settings_file().and_then(|path| regular::text(&path).ok()),
            model: self.options.model.clone(),
            directory: self.options.work_directory.clone(),
            repository: git::repository(&self.options.work_directory).await,
            fleet: provisioning::fleet(directory, start),
            max_cost_usd: budget.max_cost_usd,
            is_review: provisioning::is_review(directory),
            output: EngineOutput::Parts,
            variables: Values::new(),
        };
        Ok((engine, request, budget))
    }

    /// Another engine than in the last run does not have the session.
    fn session_for(&self, word: EngineWord) -> engine::Session {
        match &self.session {
            Some(session) if session.engine == word.word() => {
                engine::Session::Resume { id: session.id.clone(), spent: session.spent }
            }
            Some(_) | None => engine::Session::Fresh { id: Uuid::new_v4() },
        }
    }

    fn launch<'a>(&'a self, engine: &'a dyn Engine, request: Request, budget: Budget) -> Launch<'a> {
        Launch {
            directory: &self.options.directory,
            engine,
            request,
            run: self.run,
            limits: self.options.limits,
            stop: &self.stop,
            budget,
        }
    }

    fn unspent(&self, finish: Finish) -> Finished {
        let session = self.session.as_ref().map(|session| session.spent).unwrap_or_default();
        Finished::unspent(finish, session)
    }
}

/// The end of a turn that was accepted before the budget was used up.
pub(super) fn not_started(error: &BudgetError) -> Finish {
    Finish::Reported(EngineEnd::Failed { kind: FailureKind::Budget, text: format!("not started: {error}") })
}

/// An interrupted task does not start over, since part of it is done and paid for.
fn unknown() -> EngineEnd {
    let text = "interrupted: the engine has lost the conversation of this task; it is not run again";
    EngineEnd::Failed { kind: FailureKind::EngineError, text: text.to_owned() }
}
