//! One turn of an agent's worker: probe the app, plan, record, act.

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use super::tasks::{TaskWorker, TurnResult, WakeInputs, attempt_id};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::app::tasks::{Evidence, RunSeen};
use crate::domain::agent::AgentStatus;
use crate::domain::app::{AppSeen, PROMPT_KEY, RunnerSeen, TurnState};
use crate::domain::clock::Clock;
use crate::domain::id::{AgentId, TaskId};
use crate::domain::run::CancelCause;
use crate::domain::status::current_report;
use crate::domain::task::{Channel, Delivery, Sending, Task, TaskState};
use crate::domain::task_plan::{Ending, Facts, Reach, TaskStep, interrupt_key, is_over, plan};
use crate::domain::text::cut;

/// Limits the steps per probe: the end of one task and the start of the next.
const DECISIONS: usize = 4;
/// The largest length of a reason in the task's history.
const MAX_REASON: usize = 200;

/// A probe of an agent and the state it is judged with.
struct AgentProbe<'a> {
    state: &'a AgentState,
    reach: Reach,
    /// The earliest build from which on every build up to the newest start is a start.
    unstopped_since: i64,
    app: &'a AppSeen,
    probed_at: DateTime<Utc>,
}

impl Fleet {
    pub(super) async fn task_turn(
        &self,
        worker: &mut TaskWorker,
        state: &AgentState,
    ) -> Result<TurnResult, Error> {
        // Only state polled since the start of the server counts: before that, not even a timeout is certain.
        if state.live.observation.is_none() {
            return Ok(TurnResult::Pause);
        }
        let reach = reach_of(state);
        // A lower bound for the age of the app's state; later reports take precedence.
        let probed_at = Utc::now();
        let app = self.probe_app(worker, state, reach).await;
        self.log_follow(worker, state, &app).await;
        self.interrupt_ended_tasks(state, &app).await?;
        if reach != Reach::Ready || !is_run_task(state) {
            worker.note_quiet(&app);
        }
        let unstopped_since = self.unstopped_since(state, reach).await;
        let probe = AgentProbe { state, reach, unstopped_since, app: &app, probed_at };
        for _ in 0..DECISIONS {
            // Read again: the task may have been canceled or have ended meanwhile.
            let tasks = self.store().tasks_latest_of(worker.agent).await?;
            worker.wake_inputs = Some(WakeInputs::of(&tasks, state));
            let Some(mut task) = tasks.open else {
                if self.shows_open_task(worker.agent) {
                    self.tasks_publish(worker.agent).await?;
                }
                self.note_rest_from(&probe).await?;
                return Ok(TurnResult::Pause);
            };
            let run = self.task_run_seen(&task).await?;
            let worked = task.work.worked;
            worker.note_work(&mut task, reach);
            let is_timed =
                task.work.timeout.is_some() && task.work.worked - worked >= self.limits().sign_interval;
            self.note_signs(worker, &mut task, (&probe, run.as_ref(), is_timed)).await?;
            let step = worker.plan(&self.clock(), &task, &probe, run.as_ref());
            match self.task_step(worker, &probe, task, step).await? {
                TurnResult::PlanAgain => {}
                turn @ (TurnResult::ProbeNow | TurnResult::Pause) => return Ok(turn),
            }
        }
        Ok(TurnResult::ProbeNow)
    }

    fn shows_open_task(&self, agent: AgentId) -> bool {
        self.board().now().by_id(agent).is_some_and(|state| state.tasks.open.is_some())
    }

    /// Read from Coder only for a broken workspace; again at the next look if Coder does not respond.
    async fn unstopped_since(&self, state: &AgentState, reach: Reach) -> i64 {
        let generation = state.agent.sighting.generation;
        let starts = match state.agent.workspace_id {
            Some(workspace) if reach == Reach::Broken => self.0.starts.read(workspace, generation).await,
            Some(_) | None => None,
        };
        // A task names only starts as its generation: if it names the build right before this one, that was a start.
        starts.map_or(generation - 1, |starts| starts.unstopped_since)
    }

    async fn probe_app(&self, worker: &TaskWorker, state: &AgentState, reach: Reach) -> AppSeen {
        if reach != Reach::Ready || is_run_task(state) {
            return AppSeen::Unasked;
        }
        let _permit = worker.permits.acquire().await;
        let open = state.tasks.open.as_ref();
        let is_to_stop = open.is_some_and(|task| {
            task.work.cancel.is_some() || worker.interrupting.is_some_and(|(id, _)| id == attempt_id(task))
        });
        let app = if is_to_stop { self.app_probe_briefly(state).await } else { self.app_probe(state).await };
        match (app, &state.tasks.open) {
            (AppSeen::Runner(seen), Some(task)) if may_be_forgotten(task, &seen) => {
                self.app_query_task(state, seen, &task.key()).await
            }
            (app, Some(_) | None) => app,
        }
    }

    async fn task_step(
        &self,
        worker: &mut TaskWorker,
        probe: &AgentProbe<'_>,
        mut task: Task,
        step: TaskStep,
    ) -> Result<TurnResult, Error> {
        let when = (probe.state.agent.sighting.generation, Utc::now());
        match step {
            TaskStep::Wait => Ok(TurnResult::Pause),
            TaskStep::Send { channel: Channel::Exec, .. } => {
                self.task_send_run(worker, probe.state, task).await
            }
            TaskStep::Send { channel, base } => {
                let before = (task.state(), task.delivery());
                task.note_start(probe.app);
                task.send(channel, base, when);
                self.task_send(worker, probe.state, (task, before)).await
            }
            TaskStep::MarkDelivered { channel, base } => {
                task.note_start(probe.app);
                task.mark_delivered(channel, base, when);
                self.task_taken(worker, probe, task, channel).await
            }
            TaskStep::Park { until, reason } => {
                task.work.parked_until = Some(until);
                self.task_record(&task, &[(TaskState::Working, &reason)]).await
            }
            TaskStep::Resume { reason, redelivery } => {
                task.resume(redelivery);
                self.task_record(&task, &[(TaskState::Working, reason)]).await
            }
            TaskStep::Interrupt => self.task_interrupt(worker, probe, &task).await,
            TaskStep::Signal => self.task_signal(worker, probe.state, task).await,
            TaskStep::StopWorkspace => self.task_stop_workspace(probe.state).await,
            TaskStep::End(ending) => self.task_end(probe, task, (None, ending)).await,
        }
    }

    /// A task that has already ended when first seen is recorded once.
    async fn task_taken(
        &self,
        worker: &TaskWorker,
        probe: &AgentProbe<'_>,
        task: Task,
        channel: Channel,
    ) -> Result<TurnResult, Error> {
        let reason = format!("delivered to the agent ({channel})");
        let run = self.task_run_seen(&task).await?;
        if let TaskStep::End(ending) = worker.plan(&self.clock(), &task, probe, run.as_ref()) {
            return self.task_end(probe, task, (Some(reason), ending)).await;
        }
        point("task.taking");
        let turn = self.task_record(&task, &[(TaskState::Working, &reason)]).await;
        point("task.taken");
        turn
    }

    async fn task_interrupt(
        &self,
        worker: &mut TaskWorker,
        probe: &AgentProbe<'_>,
        task: &Task,
    ) -> Result<TurnResult, Error> {
        if worker.interrupted_at.is_some_and(|at| at.elapsed() < self.limits().interrupt_repeat) {
            return Ok(TurnResult::Pause);
        }
        worker.interrupted_at = Some(Instant::now());
        let attempt = attempt_id(task);
        worker.interrupting =
            worker.interrupting.filter(|(id, _)| *id == attempt).or(Some((attempt, Utc::now())));
        let key = interrupt_key(task, probe.app);
        let _permit = worker.permits.acquire().await;
        if task.channel() == Some(Channel::Exec) {
            self.run_cancel(task.run(), CancelCause::Request).await?;
        } else {
            self.app_interrupt(probe.state, key.as_deref()).await;
        }
        point("task.interrupted");
        Ok(TurnResult::Pause)
    }

    async fn task_end(
        &self,
        probe: &AgentProbe<'_>,
        mut task: Task,
        (taken, ending): (Option<String>, Ending),
    ) -> Result<TurnResult, Error> {
        let git = match self.evidence(probe, &task).await? {
            Evidence::Seen(git) => Some(git),
            Evidence::Nothing => None,
            Evidence::Later => return Ok(TurnResult::Pause),
        };
        task.end(&ending, git.as_ref(), Utc::now());
        self.log_keep(probe.state, probe.app).await;
        self.note_rest_from(probe).await?;
        point("task.ending");
        let reason = cut(ending.outcome.as_deref().unwrap_or("the agent has finished it"), MAX_REASON);
        let taken = taken.as_deref().map(|reason| (TaskState::Working, reason));
        let moves: Vec<(TaskState, &str)> =
            taken.into_iter().chain([(ending.state.into(), reason.as_str())]).collect();
        let turn = self.task_record(&task, &moves).await;
        point("task.ended");
        let name = &probe.state.agent.name;
        tracing::info!(
            agent.name = %name, task.id = %task.id, task.state = %ending.state,
            "a task has ended"
        );
        turn
    }

    /// The repository's state after the task: from the runner, or by a probe after a run. Its state before or during
    /// the work is no evidence.
    async fn evidence(&self, probe: &AgentProbe<'_>, task: &Task) -> Result<Evidence, Error> {
        match (probe.app, task.delivery()) {
            (_, Delivery::Delivered { channel: Channel::Exec, .. }) if probe.reach == Reach::Ready => {
                let run = self.task_run_seen(task).await?;
                match run.map(|run| run.state) {
                    Some(TurnState::Ended(_)) => self.task_evidence(probe.state, task).await,
                    Some(TurnState::Queued | TurnState::Working) | None => Ok(Evidence::Nothing),
                }
            }
            (AppSeen::Runner(seen), Delivery::Delivered { .. }) if is_over(task, seen) => {
                Ok(seen.git.clone().map_or(Evidence::Nothing, Evidence::Seen))
            }
            (_, Delivery::Unsent | Delivery::Sending { .. } | Delivery::Delivered { .. }) => {
                Ok(Evidence::Nothing)
            }
        }
    }

    /// Saves and publishes the task; a newer record in the store is kept.
    pub(super) async fn task_record(
        &self,
        task: &Task,
        moves: &[(TaskState, &str)],
    ) -> Result<TurnResult, Error> {
        let is_written = self.store().task_save(task, moves, Utc::now()).await?;
        self.tasks_publish(task.entry.agent_id).await?;
        Ok(if is_written { TurnResult::PlanAgain } else { TurnResult::Pause })
    }

    /// The app knows best whether the agent works: reports may be late, or from a process that died.
    async fn note_rest_from(&self, probe: &AgentProbe<'_>) -> Result<(), Error> {
        if probe.app.is_stable() != Some(true) {
            return Ok(());
        }
        self.note_rest(probe.state.agent.id, probe.probed_at).await
    }

    /// Interrupts work on tasks that have already ended in the store.
    async fn interrupt_ended_tasks(&self, state: &AgentState, app: &AppSeen) -> Result<(), Error> {
        let AppSeen::Runner(seen) = app else { return Ok(()) };
        for turn in seen.turns.iter().filter(|turn| !turn.is_ended()) {
            let Some(name) = turn.name() else { continue };
            let task = match name {
                PROMPT_KEY => self.store().task_spec_of(state.agent.id).await?,
                key => match task_id(key) {
                    Some(id) => self.store().task_by_id(id).await?,
                    None => continue,
                },
            };
            if task.is_some_and(|task| task.state().is_ended()) {
                tracing::info!(
                    agent.name = %state.agent.name,
                    "the agent still works on an ended task and is interrupted"
                );
                self.app_interrupt(state, Some(name)).await;
            }
        }
        Ok(())
    }

    /// Records silence and signs of life when they begin, and at intervals.
    async fn note_signs(
        &self,
        worker: &mut TaskWorker,
        task: &mut Task,
        (probe, run, is_timed): (&AgentProbe<'_>, Option<&RunSeen>, bool),
    ) -> Result<(), Error> {
        let clock = self.clock();
        let now = clock.now();
        let was_silent = task.work.silent_since.is_some();
        let is_silent = matches!(probe.app, AppSeen::Silent { .. });
        let is_speaking = worker.has_new_output(probe.app, run) && task.state() == TaskState::Working;
        let is_sign_due = task.work.last_sign.is_none_or(|at| clock.since(at) >= self.limits().sign_interval);
        if is_silent {
            // The time of an unanswered probe is part of the silence.
            task.work.silent_since = task.work.silent_since.or(Some(probe.probed_at));
        } else {
            task.work.silent_since = None;
        }
        if is_speaking && is_sign_due {
            task.work.last_sign = Some(now);
        }
        if was_silent != is_silent || (is_speaking && is_sign_due) || is_timed {
            self.task_record(task, &[]).await?;
        } else if is_silent {
            self.judge_again(task.entry.agent_id).await?;
        }
        Ok(())
    }
}

impl TaskWorker {
    fn plan(&self, clock: &Clock, task: &Task, probe: &AgentProbe<'_>, run: Option<&RunSeen>) -> TaskStep {
        let attempt = attempt_id(task);
        plan(&Facts {
            task,
            reach: probe.reach,
            generation: probe.state.agent.sighting.generation,
            unstopped_since: probe.unstopped_since,
            app: probe.app,
            run: run.map(|run| &run.state),
            report: probe.state.live.observation.as_deref().and_then(current_report),
            quiet_since: self.quiet_since,
            interrupting_since: self.interrupting.filter(|(id, _)| *id == attempt).map(|(_, since)| since),
            signaling: self.signaling.filter(|(id, _)| *id == attempt).map(|(_, signaling)| signaling),
            clock,
        })
    }

    /// Measures the working time of a task. Time with the workspace down, or without a worker, does not count.
    fn note_work(&mut self, task: &mut Task, reach: Reach) {
        let is_at_work = task.state() == TaskState::Working
            && task.work.parked_until.is_none()
            && reach != Reach::Down
            && reach != Reach::Broken;
        let (attempt, now) = (attempt_id(task), Instant::now());
        if let Some((_, worked, at)) = self.worked_on.filter(|(id, ..)| *id == attempt) {
            let passed = TimeDelta::from_std(now.saturating_duration_since(at)).unwrap_or_default();
            let total = if is_at_work { worked + passed } else { worked };
            task.work.worked = task.work.worked.max(total);
        }
        self.worked_on = Some((attempt, task.work.worked, now));
    }

    /// Measures how long the agent waits without output.
    fn note_quiet(&mut self, app: &AppSeen) {
        let is_answer = app.has_no_agent() || app.is_stable().is_some();
        self.quiet_since = if is_answer { self.quiet_since.or(Some(Utc::now())) } else { None };
    }

    /// Whether the agent has written more since the last probe.
    fn has_new_output(&mut self, app: &AppSeen, run: Option<&RunSeen>) -> bool {
        let n_shown: usize = app.messages().iter().map(|message| message.content.len()).sum();
        let n_read = n_shown as u64 + run.map_or(0, |run| run.n_written);
        let is_more = n_read > self.n_read;
        self.n_read = n_read;
        is_more || (matches!(app, AppSeen::AgentApi(_)) && app.is_stable() == Some(false))
    }
}

/// The task id in an attempt's key.
fn task_id(key: &str) -> Option<TaskId> {
    key.split('.').next()?.parse().ok().map(TaskId)
}

/// Whether the task was sent to a runner that may have forgotten it.
fn may_be_forgotten(task: &Task, seen: &RunnerSeen) -> bool {
    let key = task.key();
    let is_sent = matches!(
        task.delivery(),
        Delivery::Sending(Sending { channel: Channel::Runner, .. })
            | Delivery::Delivered { channel: Channel::Runner, .. }
    );
    is_sent && seen.n_forgotten > 0 && !seen.turns.iter().any(|turn| turn.key.as_ref() == Some(&key))
}

/// The state of a run comes from the run alone, not from an app in the workspace.
fn is_run_task(state: &AgentState) -> bool {
    state.tasks.open.as_ref().is_some_and(|task| task.channel() == Some(Channel::Exec))
}

fn reach_of(state: &AgentState) -> Reach {
    match state.agent.sighting.status {
        AgentStatus::Failed if state.live.has_failed_start() => Reach::Broken,
        AgentStatus::Busy | AgentStatus::Idle => Reach::Ready,
        AgentStatus::Stopped => Reach::Down,
        AgentStatus::Pending | AgentStatus::Starting | AgentStatus::Stopping => Reach::Away,
        AgentStatus::Failed | AgentStatus::Canceling | AgentStatus::Canceled => Reach::Away,
        AgentStatus::Deleting | AgentStatus::Deleted => Reach::Away,
    }
}
