//! Sends a task to its agent: the intent is recorded first, and the next probe shows whether it arrived.

use chrono::Utc;

use super::tasks::{TaskWorker, TurnResult, attempt_id};
use crate::app::Fleet;
use crate::app::agent_app::{DeliveryResult, TaskMessage};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::access::Action;
use crate::domain::operation::OperationKind;
use crate::domain::task::{Channel, Delivery, EndState, Escalation, Task, TaskState};
use crate::domain::task_plan::{Signaling, ending};

impl Fleet {
    pub(super) async fn task_send(
        &self,
        worker: &TaskWorker,
        state: &AgentState,
        (task, (state_before, delivery_before)): (Task, (TaskState, Delivery)),
    ) -> Result<TurnResult, Error> {
        // A repeated delivery is already in this state.
        let moves = [(TaskState::Delivering, "being delivered to the agent")];
        let is_first = state_before == TaskState::Queued;
        if self.task_record(&task, if is_first { &moves } else { &[] }).await? == TurnResult::Pause {
            return Ok(TurnResult::Pause);
        }
        point("task.recorded");
        let key = task.key();
        let is_runner = task.channel() == Some(Channel::Runner);
        let message = TaskMessage {
            text: task.message_text(),
            key: is_runner.then_some(key.as_str()),
            is_continued: task.work.is_continued,
        };
        let result = {
            let _permit = worker.permits.acquire().await;
            self.app_deliver(state, message).await
        };
        point("task.answered");
        match result {
            // Our runner's state is more precise than its response.
            DeliveryResult::Accepted if is_runner => Ok(TurnResult::ProbeNow),
            // A refusal of this delivery does not disprove an earlier one.
            DeliveryResult::TryLater if delivery_before != Delivery::Unsent => Ok(TurnResult::Pause),
            result => self.task_apply_delivery(task, result).await,
        }
    }

    pub(super) async fn task_apply_delivery(
        &self,
        mut task: Task,
        result: DeliveryResult,
    ) -> Result<TurnResult, Error> {
        match result {
            DeliveryResult::Accepted => {
                task.mark_acknowledged();
                self.task_record(&task, &[]).await?;
                Ok(TurnResult::ProbeNow)
            }
            DeliveryResult::TryLater => {
                task.mark_refused();
                self.task_record(&task, &[]).await?;
                Ok(TurnResult::Pause)
            }
            DeliveryResult::Refused(reason) => {
                let nothing_seen = None;
                task.end(&ending(EndState::Failed, Some(&reason)), nothing_seen, Utc::now());
                self.task_record(&task, &[(TaskState::Failed, &reason)]).await
            }
            DeliveryResult::Unclear => Ok(TurnResult::Pause),
        }
    }

    /// The second step of a cancel: signals the processes, past the runner.
    pub(super) async fn task_signal(
        &self,
        worker: &mut TaskWorker,
        state: &AgentState,
        mut task: Task,
    ) -> Result<TurnResult, Error> {
        let earlier = worker.signaling.filter(|(attempt, _)| *attempt == attempt_id(&task));
        let since = earlier.map_or_else(Utc::now, |(_, signaling)| signaling.since);
        let are_gone = {
            let _permit = worker.permits.acquire().await;
            self.engine_terminate(state).await
        };
        worker.signaling = Some((attempt_id(&task), Signaling { since, are_gone }));
        point("task.signaled");
        if !are_gone {
            return Ok(TurnResult::Pause);
        }
        task.work.reached = Escalation::Signals;
        self.task_record(&task, &[]).await?;
        Ok(TurnResult::ProbeNow)
    }

    /// The last step of a cancel: requests one ordinary stop of the workspace.
    pub(super) async fn task_stop_workspace(&self, state: &AgentState) -> Result<TurnResult, Error> {
        let newest = self.store().operations_of(state.agent.id, 1).await?;
        if newest.iter().all(|operation| operation.is_ended()) {
            // A delete ends the task too.
            self.operation_for(Action::TaskCancel, state.agent.id, OperationKind::Stop).await?;
        }
        Ok(TurnResult::Pause)
    }
}
