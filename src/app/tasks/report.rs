//! An agent's report about itself: an entry of its history, and a claim about its open task.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{ReportStatus, ReportedState, StatusReported};
use crate::app::Fleet;
use crate::app::caller::{AgentPermit, AuditedCall, Caller, StatusReport};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::Target;
use crate::domain::history::{HistoryLine, Report};
use crate::domain::task::{Claim, Task, TaskSource};
use crate::store::ReportEffect;

impl Fleet {
    pub async fn status_report(
        &self,
        caller: &Caller,
        request: ReportStatus,
    ) -> Result<StatusReported, Error> {
        let own = caller.principal.agent.and_then(|id| self.board().now().by_id(id).cloned());
        let target = own.as_ref().map(|state| state.agent.name.to_string());
        let call = AuditedCall { caller, action: StatusReport, target };
        let reported = async { self.report_of(&self.report_permitted(&call, own).await?, request).await };
        self.audited(&call, reported.await, |_| None).await
    }

    /// Refuses callers that are no agent, and returns not found for a deleted agent.
    async fn report_permitted<'a>(
        &self,
        call: &'a AuditedCall<'a, StatusReport>,
        own: Option<Arc<AgentState>>,
    ) -> Result<AgentPermit<'a, StatusReport>, Error> {
        let Some(own) = own else {
            self.permit(call, Target::Fleet).await?;
            return Err(Error::AgentNotFound(call.caller.principal.name.clone()));
        };
        self.permit_agent(call, own).await
    }

    async fn report_of(
        &self,
        permit: &AgentPermit<'_, StatusReport>,
        request: ReportStatus,
    ) -> Result<StatusReported, Error> {
        let state = permit.target();
        let name = state.agent.name.clone();
        let task = state.tasks.open.clone().filter(|task| task.working_since().is_some());
        let now = Utc::now();
        let claim = request.state.claim(request.question.as_deref()).map(|kind| Claim {
            kind,
            text: request.question.clone().unwrap_or_else(|| request.summary.clone()),
            at: now,
        });
        let effect = match (&task, &claim) {
            (Some(task), Some(claim)) => ReportEffect::Claim(task.id, claim),
            (Some(task), None) if request.state == ReportedState::Working => ReportEffect::Continues(task.id),
            (Some(_), None) => ReportEffect::Nothing,
            (None, _) => ReportEffect::Unassigned,
        };
        let added = self.store().report_add(&report(state, task.as_ref(), &request, now), effect).await?;
        self.tasks_publish(state.agent.id).await?;
        let task = task.filter(|task| added.task_id == Some(task.id));
        let message = match effect {
            ReportEffect::Claim(..) if task.is_some() => {
                "recorded; this report ends your current task".to_owned()
            }
            ReportEffect::Claim(..)
            | ReportEffect::Continues(_)
            | ReportEffect::Unassigned
            | ReportEffect::Nothing => "recorded".to_owned(),
        };
        let status = self.state_of(state.agent.id).await?.agent.sighting.status;
        Ok(StatusReported { name, task, status, message })
    }
}

fn report(state: &AgentState, task: Option<&Task>, request: &ReportStatus, now: DateTime<Utc>) -> Report {
    Report {
        id: Uuid::now_v7(),
        line: HistoryLine {
            agent_id: state.agent.id,
            message: request.question.clone().unwrap_or_else(|| request.summary.clone()),
            source: TaskSource::Agent,
            generation: state.agent.sighting.generation,
            created_at: now,
        },
        state: request.state.app_state(),
        task_id: task.map(|task| task.id),
        uri: request.uri.clone(),
        needs_answer: request.question.is_some(),
    }
}
