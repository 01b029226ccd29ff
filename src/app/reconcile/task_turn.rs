//! One turn of an agent's worker: look at the app, decide, record, act.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use tokio::time::Instant;

use super::tasks::{Mark, Turn, Worker};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::agent::AgentStatus;
use crate::domain::app::AppSeen;
use crate::domain::id::TaskId;
use crate::domain::status::current_report;
use crate::domain::task::{Task, TaskState};
use crate::domain::task_plan::{Ending, Facts, Reach, Step, plan, strays};

/// An interruption that was not heard is repeated after this.
const INTERRUPT_PAUSE: Duration = Duration::from_secs(1);
/// One look leads to so many decisions at most: the end of one task, and the next one on its way.
const DECISIONS: usize = 4;
/// Signs of life are written no more often.
const SIGN_INTERVAL: TimeDelta = TimeDelta::seconds(20);

impl Fleet {
    pub(super) async fn task_turn(&self, worker: &mut Worker, state: &AgentState) -> Result<Turn, Error> {
        let reach = reach_of(state.agent.sighting.status);
        let app = self.looked_at(worker, state, reach).await;
        self.end_strays(state, &app).await?;
        worker.note(&app);
        for _ in 0..DECISIONS {
            // Read anew: somebody may have canceled it meanwhile, or the next one's turn has come.
            let tasks = self.store().tasks_latest_of(worker.agent).await?;
            worker.mark = Some(Mark::of(&tasks, state));
            let Some(mut task) = tasks.open else { return self.doubted(state, &app).await };
            self.note_signs(worker, &mut task, &app).await?;
            let step = plan(&Facts {
                task: &task,
                reach,
                generation: state.agent.sighting.generation,
                app: &app,
                report: state.live.observation.as_deref().and_then(current_report),
                quiet_since: worker.quiet_since,
                now: Utc::now(),
            });
            match self.task_step(worker, state, (task, &app), step).await? {
                Turn::Decide => {}
                turn @ (Turn::Look | Turn::Pause) => return Ok(turn),
            }
        }
        Ok(Turn::Look)
    }

    async fn looked_at(&self, worker: &Worker, state: &AgentState, reach: Reach) -> AppSeen {
        if reach != Reach::Ready {
            return AppSeen::Unasked;
        }
        let _place = worker.places.acquire().await;
        self.app_look(state).await
    }

    async fn task_step(
        &self,
        worker: &mut Worker,
        state: &AgentState,
        (task, app): (Task, &AppSeen),
        step: Step,
    ) -> Result<Turn, Error> {
        let mut task = task;
        let when = (state.agent.sighting.generation, Utc::now());
        match step {
            Step::Wait => Ok(Turn::Pause),
            Step::Send { channel, base } => {
                task.note_start(app);
                task.send(channel, base, when);
                self.task_send(worker, state, task).await
            }
            Step::Take { channel, base } => {
                task.note_start(app);
                task.take(channel, base, when);
                point("task.taking");
                let turn = self.task_record(&task, &format!("the agent has it ({channel})")).await;
                point("task.taken");
                turn
            }
            Step::Park { until, reason } => {
                task.work.parked_until = Some(until);
                self.task_record(&task, &reason).await
            }
            Step::Resume => {
                task.resume();
                self.task_record(&task, "the usage limit is over").await
            }
            Step::Interrupt => self.task_interrupt(worker, state, &task).await,
            Step::StopWorkspace => self.task_stop_workspace(state).await,
            Step::End(ending) => self.task_end(state, (task, app), ending).await,
        }
    }

    async fn task_interrupt(
        &self,
        worker: &mut Worker,
        state: &AgentState,
        task: &Task,
    ) -> Result<Turn, Error> {
        if worker.interrupted_at.is_some_and(|at| at.elapsed() < INTERRUPT_PAUSE) {
            return Ok(Turn::Pause);
        }
        worker.interrupted_at = Some(Instant::now());
        let key = task.interrupt_key();
        let _place = worker.places.acquire().await;
        self.app_interrupt(state, key.as_deref()).await;
        point("task.interrupted");
        Ok(Turn::Pause)
    }

    async fn task_end(
        &self,
        state: &AgentState,
        (mut task, app): (Task, &AppSeen),
        ending: Ending,
    ) -> Result<Turn, Error> {
        task.end(&ending, app);
        self.log_keep(state, app).await;
        point("task.ending");
        let reason = ending.outcome.unwrap_or_else(|| "the agent is through with it".to_owned());
        if app.is_stable() == Some(true) {
            self.note_rest(task.entry.agent_id, Utc::now()).await?;
        }
        let turn = self.task_record(&task, &reason).await;
        point("task.ended");
        tracing::info!(agent.name = %state.agent.name, task.id = %task.id, task.state = %ending.state, "a task has ended");
        turn
    }

    /// Writes the task down and shows it; a record that has moved on meanwhile stays as it is.
    pub(super) async fn task_record(&self, task: &Task, reason: &str) -> Result<Turn, Error> {
        let is_written = self.store().task_save(task, reason, Utc::now()).await?;
        self.tasks_publish(task.entry.agent_id).await?;
        Ok(if is_written { Turn::Decide } else { Turn::Pause })
    }

    /// Busy by its reports alone: the app itself knows whether that is still so.
    async fn doubted(&self, state: &AgentState, app: &AppSeen) -> Result<Turn, Error> {
        if app.is_stable() == Some(true) {
            self.note_rest(state.agent.id, Utc::now()).await?;
        }
        Ok(Turn::Pause)
    }

    /// Work for a task that has ended for us is ended in the workspace too.
    async fn end_strays(&self, state: &AgentState, app: &AppSeen) -> Result<(), Error> {
        let AppSeen::Runner(seen) = app else { return Ok(()) };
        let mut over = Vec::new();
        for key in seen.turns.iter().filter(|turn| !turn.is_ended()).filter_map(|turn| turn.key.as_deref()) {
            let id = key.split('.').next().and_then(|id| id.parse().ok()).map(TaskId);
            let Some(id) = id else { continue };
            let task = self.store().task_by_id(id).await?;
            if task.is_some_and(|task| task.state().is_ended() && task.work.claim.is_none()) {
                over.push(key);
            }
        }
        for stray in strays(seen, |key| over.contains(&key)) {
            tracing::info!(agent.name = %state.agent.name, "work for a task that has ended is interrupted");
            self.app_interrupt(state, stray.key.as_deref()).await;
        }
        Ok(())
    }

    /// Silence and signs of life are written when they begin, and now and then.
    async fn note_signs(&self, worker: &mut Worker, task: &mut Task, app: &AppSeen) -> Result<(), Error> {
        let now = Utc::now();
        let was_silent = task.work.silent_since.is_some();
        let is_silent = matches!(app, AppSeen::Silent { .. });
        let is_speaking = worker.heard(app) && task.state() == TaskState::Working;
        let is_sign_due = task.work.last_sign.is_none_or(|at| now - at >= SIGN_INTERVAL);
        if is_silent {
            task.work.silent_since = task.work.silent_since.or(Some(now));
        } else {
            task.work.silent_since = None;
        }
        if is_speaking && is_sign_due {
            task.work.last_sign = Some(now);
        }
        if was_silent != is_silent || (is_speaking && is_sign_due) {
            self.task_record(task, "").await?;
        } else if is_silent {
            self.judge_again(task.entry.agent_id).await?;
        }
        Ok(())
    }
}

impl Worker {
    /// Counts the time in which the agent waits and nobody has said anything.
    fn note(&mut self, app: &AppSeen) {
        let is_answer = matches!(app, AppSeen::Absent | AppSeen::Runner(_) | AppSeen::AgentApi(_));
        self.quiet_since = if is_answer { self.quiet_since.or(Some(Utc::now())) } else { None };
    }

    /// Has the agent said more than at the last look?
    fn heard(&mut self, app: &AppSeen) -> bool {
        let n_heard = app.messages().iter().map(|message| message.content.len()).sum();
        let is_more = n_heard > self.n_heard;
        self.n_heard = n_heard;
        is_more || (matches!(app, AppSeen::AgentApi(_)) && app.is_stable() == Some(false))
    }
}

fn reach_of(status: AgentStatus) -> Reach {
    match status {
        AgentStatus::Busy | AgentStatus::Idle => Reach::Ready,
        AgentStatus::Stopped => Reach::Down,
        AgentStatus::Pending | AgentStatus::Starting | AgentStatus::Stopping => Reach::Away,
        AgentStatus::Failed | AgentStatus::Canceling | AgentStatus::Canceled => Reach::Away,
        AgentStatus::Deleting | AgentStatus::Deleted => Reach::Away,
    }
}
