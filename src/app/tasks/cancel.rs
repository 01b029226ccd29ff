//! Canceling: the wish is recorded, carried out step by step, and the answer says how far it had to go.

use std::time::Duration;

use chrono::Utc;

use super::{CancelTask, TaskCanceled};
use crate::app::Fleet;
use crate::app::agents::deed;
use crate::app::caller::{Caller, Deed};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::access::Action;
use crate::domain::agent::AgentStatus;
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{Reached, Task};
use crate::store::{CancelTaken, Which};

/// The ladder's deadlines are over by then, a stop of the workspace included as a rule.
const LONGEST_WAIT: Duration = Duration::from_secs(42);

impl Fleet {
    pub async fn task_cancel(&self, caller: &Caller, request: CancelTask) -> Result<TaskCanceled, Error> {
        let deed = deed(caller, Action::TaskCancel, &request.name);
        let accepted = self.cancel_accept(&deed, &request).await;
        let (agent, taken) = self.audited(&deed, accepted, |_| None).await?;
        point("cancel.accepted");
        self.tasks_publish(agent).await?;
        for run in self.store().member_runs_unwanted(agent).await? {
            self.run_end_if_there(run).await?;
        }
        if let Some(task) = taken.in_hand {
            self.await_end(agent, task).await?;
        }
        self.canceled(agent, &taken, &request).await
    }

    async fn cancel_accept(
        &self,
        deed: &Deed<'_>,
        request: &CancelTask,
    ) -> Result<(AgentId, CancelTaken), Error> {
        let state = self.agent_permitted(deed, &request.name).await?;
        let which = if request.all { Which::All } else { Which::Current };
        let agent = state.agent.id;
        let taken = self.store().tasks_cancel(agent, which, request.escalate, Utc::now()).await?;
        if taken == CancelTaken::default() {
            self.interrupt_other_work(&state).await?;
        }
        Ok((agent, taken))
    }

    /// What an agent does without a task of ours can be interrupted too.
    async fn interrupt_other_work(&self, state: &AgentState) -> Result<(), Error> {
        if state.agent.sighting.status != AgentStatus::Busy {
            return Err(Error::NoTask(state.agent.name.to_string()));
        }
        let any = None;
        self.app_interrupt(state, any).await;
        Ok(())
    }

    async fn await_end(&self, agent: AgentId, task: TaskId) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + LONGEST_WAIT;
        let mut moved = self.0.tasks.subscribe();
        loop {
            moved.mark_unchanged();
            let known = self.store().task_by_id(task).await?;
            if known.is_none_or(|task| task.state().is_ended()) {
                return self.tasks_publish(agent).await;
            }
            tokio::select! {
                _ = moved.changed() => {}
                () = tokio::time::sleep_until(deadline) => return Ok(()),
                () = self.0.stopping.cancelled() => return Ok(()),
            }
        }
    }

    async fn canceled(
        &self,
        agent: AgentId,
        taken: &CancelTaken,
        request: &CancelTask,
    ) -> Result<TaskCanceled, Error> {
        let state = self.state_of(agent).await?;
        let task = match taken.in_hand.or(taken.ended.first().copied()) {
            Some(id) => self.store().task_by_id(id).await?,
            None => None,
        };
        let name = state.agent.name.clone();
        let reached = match &task {
            Some(task) => task.work.reached,
            None => Reached::Interrupt,
        };
        let message = message(name.as_str(), task.as_ref(), request.escalate);
        Ok(TaskCanceled { name, task, status: state.agent.sighting.status, reached, message })
    }
}

fn message(name: &str, task: Option<&Task>, is_escalated: bool) -> String {
    let Some(task) = task else { return format!("agent '{name}' was interrupted") };
    match (task.state().is_ended(), task.work.reached) {
        (false, _) if is_escalated => format!("agent '{name}' is being stopped; the task ends with it"),
        (false, _) => {
            format!("agent '{name}' does not react yet; call again with escalate to stop its workspace")
        }
        (true, Reached::None) if task.work.working_since.is_some() => {
            let advice = "call restart_agent if it goes on";
            format!(
                "the task of agent '{name}' is {}, but the agent did not confirm it; {advice}",
                task.state()
            )
        }
        (true, Reached::None | Reached::Interrupt) => {
            format!("the task of agent '{name}' is {}", task.state())
        }
        (true, Reached::Signals) => {
            format!("the task of agent '{name}' is {}; its processes had to be ended", task.state())
        }
        (true, Reached::Stop) => format!("agent '{name}' was stopped and its task is {}", task.state()),
    }
}
