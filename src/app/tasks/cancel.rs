//! Cancels tasks: records the request, escalates step by step, and reports the step that worked.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use super::{CancelTask, TaskCanceled};
use crate::app::Fleet;
use crate::app::agents::audited_call;
use crate::app::caller::{AgentPermit, Caller, TaskCancel};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::agent::AgentStatus;
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{Escalation, Task, TaskState};
use crate::store::{CancelTaken, CancelTarget};

/// The work that a cancel ends.
enum CancelScope {
    Tasks {
        taken: CancelTaken,
        before: AgentStatus,
    },
    /// The agent is busy without a task of the fleet.
    OtherWork,
}

impl Fleet {
    /// The longest time that `task_cancel` takes, apart from the work of the server itself.
    pub fn task_cancel_longest(&self) -> Duration {
        self.limits().cancel_answer + self.limits().rest
    }

    pub async fn task_cancel(&self, caller: &Caller, request: CancelTask) -> Result<TaskCanceled, Error> {
        let call = audited_call(caller, TaskCancel, &request.name);
        let accepted = async {
            let permit = self.agent_permitted(&call, &request.name).await?;
            let scope = self.cancel_accept(&permit, &request).await?;
            Ok((permit, scope))
        };
        let (permit, scope) = self.audited(&call, accepted.await, |_| None).await?;
        point("cancel.accepted");
        let agent = permit.target().agent.id;
        let (taken, before) = match scope {
            CancelScope::Tasks { taken, before } => (taken, before),
            CancelScope::OtherWork => return self.end_other_work(&permit).await,
        };
        self.tasks_publish(agent).await?;
        for run in self.store().member_runs_unwanted(agent).await? {
            self.run_cancel_if_accepted(run).await?;
        }
        if let Some(task) = taken.in_hand {
            let rest = async {
                self.await_end(agent, task).await?;
                self.await_rest(agent, task).await
            };
            self.while_admitted(caller, rest).await?;
        }
        self.canceled(agent, &taken, (before, &request)).await
    }

    async fn cancel_accept(
        &self,
        permit: &AgentPermit<'_, TaskCancel>,
        request: &CancelTask,
    ) -> Result<CancelScope, Error> {
        let state = permit.target();
        let target = if request.all { CancelTarget::All } else { CancelTarget::Current };
        let (agent, before) = (state.agent.id, state.agent.sighting.status);
        let taken = self.store().tasks_cancel(agent, target, request.escalate, Utc::now()).await?;
        if taken != CancelTaken::default() {
            return Ok(CancelScope::Tasks { taken, before });
        }
        if before != AgentStatus::Busy {
            return Err(Error::NoTask(state.agent.name.to_string()));
        }
        Ok(CancelScope::OtherWork)
    }

    /// Ends work without a task, and reports the step that worked.
    async fn end_other_work(&self, permit: &AgentPermit<'_, TaskCancel>) -> Result<TaskCanceled, Error> {
        let (state, any) = (permit.target(), None);
        let agent = state.agent.id;
        self.app_interrupt(state, any).await;
        let (interrupt, rest) = (self.limits().interrupt.to_std().unwrap_or_default(), self.limits().rest);
        let reached = if self.becomes_idle(interrupt, agent).await {
            Escalation::Interrupt
        } else if self.engine_terminate(state).await && self.becomes_idle(rest, agent).await {
            Escalation::Signals
        } else {
            Escalation::None
        };
        let state = self.state_of(agent).await?;
        let name = state.agent.name.clone();
        let message = match reached {
            Escalation::None => {
                format!("agent '{name}' does not react; call restart_agent if it keeps working")
            }
            Escalation::Interrupt | Escalation::Stop => format!("agent '{name}' was interrupted"),
            Escalation::Signals => format!("agent '{name}' did not react, so its processes were terminated"),
        };
        Ok(TaskCanceled { name, task: None, status: state.agent.sighting.status, reached, message })
    }

    /// Whether the agent becomes idle within the limit; its worker probes it as long as it seems busy.
    async fn becomes_idle(&self, limit: Duration, agent: AgentId) -> bool {
        let (wait, mut polls) = (self.wait(limit), self.board().polls());
        let is_busy = |state: &Arc<AgentState>| state.agent.sighting.status == AgentStatus::Busy;
        while self.board().now().by_id(agent).is_some_and(is_busy) {
            if !wait.goes_on(polls.changed()).await {
                return false;
            }
        }
        true
    }

    /// Waits for the agent to become idle after its work was ended, so that the answer has its final status. Skipped
    /// if nothing was ended or the agent continues with its next task.
    async fn await_rest(&self, agent: AgentId, task: TaskId) -> Result<(), Error> {
        let reached = self.store().task_by_id(task).await?.map_or(Escalation::None, |task| task.work.reached);
        let has_more = self.board().now().by_id(agent).is_none_or(|state| state.tasks.open.is_some());
        if matches!(reached, Escalation::Interrupt | Escalation::Signals) && !has_more {
            self.becomes_idle(self.limits().rest, agent).await;
        }
        Ok(())
    }

    async fn await_end(&self, agent: AgentId, task: TaskId) -> Result<(), Error> {
        let (wait, mut moved) = (self.wait(self.limits().cancel_answer), self.0.tasks.subscribe());
        loop {
            let known = self.store().task_by_id(task).await?;
            if known.is_none_or(|task| task.state().is_ended()) {
                return self.tasks_publish(agent).await;
            }
            if !wait.goes_on(moved.changed()).await {
                return Ok(());
            }
        }
    }

    async fn canceled(
        &self,
        agent: AgentId,
        taken: &CancelTaken,
        (before, request): (AgentStatus, &CancelTask),
    ) -> Result<TaskCanceled, Error> {
        let state = self.state_of(agent).await?;
        let mut task = match taken.in_hand.or(taken.ended.first().copied()) {
            Some(id) => self.store().task_by_id(id).await?,
            None => None,
        };
        // A workspace that was already stopped was not stopped by the cancel.
        if let Some(task) = task.as_mut().filter(|_| before == AgentStatus::Stopped) {
            task.work.reached = Escalation::None;
        }
        let (name, status) = (state.agent.name.clone(), state.agent.sighting.status);
        let reached = task.as_ref().map_or(Escalation::None, |task| task.work.reached);
        let message = match &task {
            Some(task) => message(name.as_str(), task, status, request.escalate),
            None => format!("agent '{name}' no longer has this task"),
        };
        Ok(TaskCanceled { name, task, status, reached, message })
    }
}

/// Whether the agent may still work on the ended task. A task that waited for a usage limit was not worked on.
fn may_go_on(task: &Task, status: AgentStatus) -> bool {
    let is_given_up = matches!(task.state(), TaskState::Canceled | TaskState::TimedOut);
    let was_worked_on = task.working_since().is_some() && task.work.parked_until.is_none();
    is_given_up && was_worked_on && status.is_ready()
}

fn message(name: &str, task: &Task, status: AgentStatus, is_escalated: bool) -> String {
    match (task.state().is_ended(), task.work.reached) {
        (false, _) if is_escalated => format!("agent '{name}' is being stopped; the task ends with it"),
        (false, _) => {
            format!(
                "agent '{name}' has not reacted yet; call cancel_agent_task with escalate=true to stop \
                its workspace"
            )
        }
        (true, Escalation::None) if may_go_on(task, status) => {
            let advice = "call restart_agent if it keeps working";
            format!(
                "the task of agent '{name}' is {}, but the agent did not confirm it; {advice}",
                task.state()
            )
        }
        (true, Escalation::None | Escalation::Interrupt) => {
            format!("the task of agent '{name}' is {}", task.state())
        }
        (true, Escalation::Signals) => {
            format!("the task of agent '{name}' is {}; its processes were terminated", task.state())
        }
        (true, Escalation::Stop) => format!("agent '{name}' was stopped and its task is {}", task.state()),
    }
}
