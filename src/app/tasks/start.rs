//! Starts a task: stored before the agent gets it, then delivered across failures and restarts.

use std::sync::Arc;

use chrono::Utc;

use super::{StartTask, TaskStarted};
use crate::app::Fleet;
use crate::app::agents::audited_call;
use crate::app::caller::{AgentPermit, Caller, TaskStart};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::agent::AgentStatus;
use crate::domain::history::HistoryLine;
use crate::domain::id::TaskId;
use crate::domain::task::{Task, TaskOrigin, TaskSource, TaskWork, WhenBusy};
use crate::domain::task_order::Admission;
use crate::store::{StoreError, TaskAccepted};

impl Fleet {
    pub async fn task_start(&self, caller: &Caller, request: StartTask) -> Result<TaskStarted, Error> {
        let call = audited_call(caller, TaskStart, &request.name);
        let accepted =
            async { self.task_accept(self.agent_permitted(&call, &request.name).await?, request).await };
        let (state, accepted) = self.audited(&call, accepted.await, |_| None).await?;
        point("task.accepted");
        self.tasks_publish(state.agent.id).await?;
        self.task_started(&state, accepted).await
    }

    async fn task_accept(
        &self,
        permit: AgentPermit<'_, TaskStart>,
        request: StartTask,
    ) -> Result<(Arc<AgentState>, TaskAccepted), Error> {
        let (call, state) = permit.into_parts();
        let key = call.request_key(request.request.as_ref());
        // Checked first: the retried task itself keeps the agent busy.
        if let Some(earlier) = self.store().task_of_key(key.as_ref()).await? {
            return Ok((state, earlier));
        }
        let is_being_started =
            !state.agent.sighting.status.is_ready() && self.is_being_started(state.agent.id).await?;
        let admission = admission(&state, request.when_busy, is_being_started)?;
        let task = new_task(&state, request, TaskSource::of(call.caller.principal.kind));
        match self.store().task_accept(&task, admission, key.as_ref()).await {
            Ok(accepted) => Ok((state, accepted)),
            Err(StoreError::Busy) => Err(Error::Busy(state.agent.name.to_string())),
            Err(StoreError::QueueFull) => Err(Error::QueueFull(state.agent.name.to_string())),
            Err(StoreError::Missing(_)) => Err(Error::AgentNotFound(state.agent.name.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    async fn task_started(&self, state: &AgentState, accepted: TaskAccepted) -> Result<TaskStarted, Error> {
        let name = state.agent.name.clone();
        let cursor = self.board().revision();
        let status = self.state_of(state.agent.id).await?.agent.sighting.status;
        let message = message(name.as_str(), status, &accepted);
        Ok(TaskStarted { name, task: accepted.task, status, message, cursor })
    }
}

/// The position of the task at the time it was accepted.
fn message(name: &str, status: AgentStatus, accepted: &TaskAccepted) -> String {
    if accepted.task.state().is_ended() {
        return format!("the task of agent '{name}' is {}", accepted.task.state());
    }
    let position = match (status.is_ready(), accepted.n_before) {
        (false, 0) => format!("the task is held until agent '{name}' is ready"),
        (false, n) => format!("the task is held until agent '{name}' is ready; {n} before it"),
        (true, 0) => format!("the task is being delivered to agent '{name}'"),
        (true, n) => format!("the task is queued for agent '{name}'; {n} before it"),
    };
    match accepted.n_interrupted {
        0 => position,
        1 => format!("{position}; it interrupts 1 task"),
        n => format!("{position}; it interrupts {n} tasks"),
    }
}

/// Only a running or starting agent takes tasks. The store decides the order.
fn admission(state: &AgentState, when_busy: WhenBusy, is_being_started: bool) -> Result<Admission, Error> {
    let name = || state.agent.name.to_string();
    match state.agent.sighting.status {
        // Work without a task of the fleet also counts as busy.
        AgentStatus::Busy if when_busy == WhenBusy::Reject => Err(Error::Busy(name())),
        AgentStatus::Busy | AgentStatus::Idle => Ok(Admission { when_busy, is_starting: false }),
        AgentStatus::Pending | AgentStatus::Starting => Ok(Admission { when_busy, is_starting: true }),
        AgentStatus::Stopping
        | AgentStatus::Stopped
        | AgentStatus::Failed
        | AgentStatus::Canceling
        | AgentStatus::Canceled
            if is_being_started =>
        {
            Ok(Admission { when_busy, is_starting: true })
        }
        status @ (AgentStatus::Stopping
        | AgentStatus::Stopped
        | AgentStatus::Failed
        | AgentStatus::Canceling
        | AgentStatus::Canceled
        | AgentStatus::Deleting
        | AgentStatus::Deleted) => Err(Error::NotReady { name: name(), status }),
    }
}

fn new_task(state: &AgentState, request: StartTask, source: TaskSource) -> Task {
    let entry = HistoryLine {
        agent_id: state.agent.id,
        message: request.description,
        source,
        generation: state.agent.sighting.generation,
        created_at: Utc::now(),
    };
    let is_urgent = request.when_busy == WhenBusy::Interrupt;
    let work = TaskWork { is_urgent, timeout: request.timeout, ..TaskWork::fresh(TaskOrigin::Given) };
    Task::accepted(TaskId::fresh(), entry, work)
}
