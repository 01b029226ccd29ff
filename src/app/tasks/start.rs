//! Giving a task: it is accepted before the agent hears of it, and then brought there whatever happens.

use std::sync::Arc;

use chrono::Utc;

use super::{StartTask, TaskStarted};
use crate::app::Fleet;
use crate::app::agents::{deed, request_key};
use crate::app::caller::{Caller, Deed};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::access::Action;
use crate::domain::agent::AgentStatus;
use crate::domain::history::{HistoryEntry, NewTask};
use crate::domain::id::TaskId;
use crate::domain::task::{Task, TaskOrigin, TaskSource, TaskWork, WhenBusy};
use crate::store::{Admission, StoreError, TaskAccepted};

impl Fleet {
    pub async fn task_start(&self, caller: &Caller, request: StartTask) -> Result<TaskStarted, Error> {
        let deed = deed(caller, Action::TaskStart, &request.name);
        let accepted = self.task_accept(&deed, request).await;
        let (state, task) = self.audited(&deed, accepted, |_| None).await?;
        point("task.accepted");
        self.tasks_publish(state.agent.id).await?;
        self.task_started(&state, task).await
    }

    async fn task_accept(
        &self,
        deed: &Deed<'_>,
        request: StartTask,
    ) -> Result<(Arc<AgentState>, Task), Error> {
        let state = self.agent_permitted(deed, &request.name).await?;
        let key = request_key(deed.caller, deed.action, request.request.as_ref());
        // Before anything is refused: the task itself keeps the agent busy.
        if let Some(earlier) = self.store().task_of_key(key.as_ref()).await? {
            return Ok((state, earlier));
        }
        let admission = admission(&state, request.when_busy)?;
        let task = new_task(&state, request, TaskSource::of(deed.caller.principal.kind));
        match self.store().task_accept(&task, admission, key.as_ref()).await {
            Ok(TaskAccepted::New) => Ok((state, task)),
            Ok(TaskAccepted::Repeated(earlier)) => Ok((state, *earlier)),
            Err(StoreError::Busy) => Err(Error::Busy(state.agent.name.to_string())),
            Err(StoreError::QueueFull) => Err(Error::QueueFull(state.agent.name.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    async fn task_started(&self, state: &AgentState, task: Task) -> Result<TaskStarted, Error> {
        let name = state.agent.name.clone();
        let status = self.state_of(state.agent.id).await?.agent.sighting.status;
        let n_before = self.store().tasks_open_count(state.agent.id).await?.saturating_sub(1);
        let message = match (status.is_ready(), n_before) {
            (false, _) => format!("the task is held until agent '{name}' is ready"),
            (true, 0) => format!("the task is on its way to agent '{name}'"),
            (true, n) => format!("the task waits for agent '{name}'; {n} before it"),
        };
        Ok(TaskStarted { name, task, status, message })
    }
}

/// Only an agent that is up, or about to be, takes tasks. The store has the last word on who is first.
fn admission(state: &AgentState, when_busy: WhenBusy) -> Result<Admission, Error> {
    let name = || state.agent.name.to_string();
    match state.agent.sighting.status {
        // Work that is no task of ours keeps it busy too.
        AgentStatus::Busy if when_busy == WhenBusy::Reject => Err(Error::Busy(name())),
        AgentStatus::Busy | AgentStatus::Idle => Ok(Admission { when_busy, is_starting: false }),
        AgentStatus::Pending | AgentStatus::Starting => Ok(Admission { when_busy, is_starting: true }),
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
    let id = TaskId::fresh();
    let entry = HistoryEntry::task(NewTask {
        id,
        agent_id: state.agent.id,
        message: request.description,
        source,
        generation: state.agent.sighting.generation,
        created_at: Utc::now(),
    });
    let is_urgent = request.when_busy == WhenBusy::Interrupt;
    let work = TaskWork { is_urgent, timeout: request.timeout, ..TaskWork::fresh(TaskOrigin::Given) };
    Task { id, entry, work }
}
