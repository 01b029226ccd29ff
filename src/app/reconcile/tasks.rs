//! Delivers tasks to agents: one worker per agent with work.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pool::{Next, Pauses, Pool};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::app::waiting::either;
use crate::domain::agent::AgentStatus;
use crate::domain::app::AppSeen;
use crate::domain::id::{AgentId, TaskId};
use crate::domain::limits::Limits;
use crate::domain::status::current_report;
use crate::domain::task::{Cancel, Delivery, Task};
use crate::domain::task_plan::Signaling;
use crate::durations::Backoff;
use crate::store::LatestTasks;

/// Limit of concurrent probes and messages; each has a deadline, so that the wait for a permit is short.
const PARALLEL: usize = 64;
/// The target rate of probes over all workers.
const PROBES_PER_SECOND: u32 = 50;

/// The state of an agent's worker between two turns.
pub(super) struct TaskWorker {
    pub(super) agent: AgentId,
    /// Notified of changes to the worker's inputs.
    wake: Arc<Notify>,
    pub(super) permits: Arc<Semaphore>,
    /// Since when the agent waits for input without output.
    pub(super) quiet_since: Option<DateTime<Utc>>,
    /// The size of the agent's output at the last probe.
    pub(super) n_read: u64,
    /// When the log was last copied, and its size then.
    log_kept: Option<(Instant, usize)>,
    pub(super) interrupted_at: Option<Instant>,
    /// The interrupted attempt, and since when.
    pub(super) interrupting: Option<(AttemptId, DateTime<Utc>)>,
    /// The attempt whose processes are signaled, and the result so far.
    pub(super) signaling: Option<(AttemptId, Signaling)>,
    /// The attempt of the last probe, its working time, and the time of the probe.
    pub(super) worked_on: Option<(AttemptId, TimeDelta, Instant)>,
    /// The inputs of the last plan.
    pub(super) wake_inputs: Option<WakeInputs>,
    n_pauses: u32,
    n_workers: u32,
    limits: Limits,
}

/// A task and its attempt number.
pub(super) type AttemptId = (TaskId, i64);

pub(super) fn attempt_id(task: &Task) -> AttemptId {
    (task.id, task.work.attempt)
}

/// A worker's wake-up and the inputs it was last woken for.
type TaskPool = Pool<AgentId, (Arc<Notify>, WakeInputs)>;

/// The result of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnResult {
    /// Only the record changed: the probe is still valid.
    PlanAgain,
    /// The agent was changed: probe again at once.
    ProbeNow,
    Pause,
}

/// Inputs whose change wakes a worker before its pause ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WakeInputs {
    version: i64,
    cancel: Option<Cancel>,
    is_claimed: bool,
    report: Option<DateTime<Utc>>,
}

impl Fleet {
    pub(super) async fn tasks_until(self, stop: CancellationToken) {
        let mut pool = TaskPool::new("task", Pauses::of(self.limits()), stop);
        let permits = Arc::new(Semaphore::new(PARALLEL));
        let (mut changes, mut tasks) = (self.board().changes(), self.0.tasks.subscribe());
        while pool.turn(either(changes.changed(), tasks.changed())).await {
            for state in self.board().now().agents.values() {
                pool.start_or_wake(&self, state, &permits);
            }
        }
    }

    async fn task_work(self, mut worker: TaskWorker, stop: CancellationToken) -> Result<Next, Error> {
        while !stop.is_cancelled() {
            let Some(state) = self.board().now().by_id(worker.agent).cloned() else { break };
            if !needs_worker(&state) {
                break;
            }
            match self.task_turn(&mut worker, &state).await {
                Ok(TurnResult::ProbeNow | TurnResult::PlanAgain) => worker.n_pauses = 0,
                Ok(TurnResult::Pause) => self.task_pause(&mut worker, &stop).await,
                Err(error) => {
                    tracing::warn!(
                        agent.name = %state.agent.name, %error,
                        "a step of a task failed; retrying"
                    );
                    self.task_pause(&mut worker, &stop).await;
                }
            }
        }
        Ok(Next::ReadOpenWork)
    }

    /// Copies the agent's log at intervals; the end of a task copies it separately.
    pub(super) async fn log_follow(&self, worker: &mut TaskWorker, state: &AgentState, app: &AppSeen) {
        let n_shown = app.messages().iter().map(|message| message.content.len() + 1).sum();
        let is_over = app.is_stable() == Some(true) && state.tasks.open.is_none();
        if worker.is_log_due(n_shown, is_over) {
            worker.log_kept = Some((Instant::now(), n_shown));
            self.log_keep(state, app).await;
        }
    }

    /// Pauses with back-off, until an input changes.
    async fn task_pause(&self, worker: &mut TaskWorker, stop: &CancellationToken) {
        let until = Instant::now() + worker.delay();
        worker.n_pauses += 1;
        // A minimal pause bounds the rate of probes of one agent.
        tokio::time::sleep(worker.limits.task_look.first).await;
        loop {
            tokio::select! {
                () = worker.wake.notified() => {}
                () = tokio::time::sleep_until(until) => return,
                () = stop.cancelled() => return,
            }
            let wake_inputs =
                self.board().now().by_id(worker.agent).map(|state| WakeInputs::of(&state.tasks, state));
            if wake_inputs != worker.wake_inputs {
                worker.n_pauses = 0;
                return;
            }
        }
    }
}

impl TaskPool {
    /// Starts a worker for an agent that needs one, or wakes its existing worker.
    fn start_or_wake(&mut self, fleet: &Fleet, state: &AgentState, permits: &Arc<Semaphore>) {
        let (agent, wake_inputs) = (state.agent.id, WakeInputs::of(&state.tasks, state));
        if let Some((wake, known)) = self.handle(&agent) {
            if *known != wake_inputs {
                *known = wake_inputs;
                wake.notify_one();
            }
            return;
        }
        if needs_worker(state) {
            let wake = Arc::new(Notify::new());
            let n_workers = u32::try_from(self.n_workers() + 1).unwrap_or(u32::MAX);
            let worker =
                TaskWorker::new(agent, Arc::clone(&wake), (Arc::clone(permits), n_workers), fleet.limits());
            let working = fleet.clone().task_work(worker, self.stop().clone());
            self.start_with(agent, (wake, wake_inputs), working);
        }
    }
}

impl TaskWorker {
    fn new(
        agent: AgentId,
        wake: Arc<Notify>,
        (permits, n_workers): (Arc<Semaphore>, u32),
        limits: &Limits,
    ) -> Self {
        Self {
            agent,
            wake,
            permits,
            quiet_since: None,
            n_read: 0,
            log_kept: None,
            interrupted_at: None,
            interrupting: None,
            signaling: None,
            worked_on: None,
            wake_inputs: None,
            n_pauses: 0,
            n_workers,
            limits: *limits,
        }
    }

    /// Output is copied at intervals, and at once when the agent's work is over.
    fn is_log_due(&self, n_shown: usize, is_over: bool) -> bool {
        let (is_old, n_kept) = self
            .log_kept
            .map_or((true, 0), |(at, n_kept)| (at.elapsed() >= self.limits.log_interval, n_kept));
        n_shown != n_kept && (is_old || is_over)
    }

    fn delay(&self) -> Duration {
        let Backoff { first, longest } = self.limits.task_look;
        let longest = longest.max(Duration::from_secs(1) * self.n_workers / PROBES_PER_SECOND);
        Backoff::new(first, longest).pause(self.n_pauses)
    }
}

impl WakeInputs {
    pub(super) fn of(tasks: &LatestTasks, state: &AgentState) -> Self {
        let work = tasks.open.as_ref().map(|task| &task.work);
        let report = state.live.observation.as_deref().and_then(current_report);
        Self {
            version: tasks.version,
            cancel: work.and_then(|work| work.cancel),
            is_claimed: work.is_some_and(|work| work.claim.is_some()),
            report: report.map(|report| report.at),
        }
    }
}

/// A started task is followed in any state of its agent; a queued task needs a ready agent. A busy agent without a
/// task is probed too, since its report may be from a process that died.
fn needs_worker(state: &AgentState) -> bool {
    let status = state.agent.sighting.status;
    match &state.tasks.open {
        Some(task) => task.delivery() != Delivery::Unsent || task.work.cancel.is_some() || status.is_ready(),
        None => status == AgentStatus::Busy && state.tasks.running.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_kept_when_it_has_grown_for_a_while_or_is_over() {
        let (wake, permits) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(1)));
        let mut worker = TaskWorker::new(AgentId::fresh(), wake, (permits, 1), &Limits::NORMAL);
        assert!(worker.is_log_due(5, false), "no copy was made before");
        worker.log_kept = Some((Instant::now(), 5));
        assert!(!worker.is_log_due(9, false));
        assert!(worker.is_log_due(9, true));
        worker.log_kept = Instant::now().checked_sub(Limits::NORMAL.log_interval).map(|at| (at, 5));
        assert_eq!((worker.is_log_due(5, true), worker.is_log_due(9, false)), (false, true));
    }
}
