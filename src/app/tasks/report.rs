//! An agent's report about itself: a line of its history, and its word on the task in hand.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{ReportStatus, Reported};
use crate::app::Fleet;
use crate::app::agents::target_of;
use crate::app::caller::{Caller, Deed};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::{Action, Target};
use crate::domain::history::{HistoryEntry, HistoryKind};
use crate::domain::id::TokenId;
use crate::domain::task::{Claim, Task, TaskSource};

impl Fleet {
    pub async fn status_report(&self, caller: &Caller, request: ReportStatus) -> Result<Reported, Error> {
        let own = caller.principal.agent.and_then(|id| self.board().now().by_id(id).cloned());
        let target = own.as_ref().map(|state| state.agent.name.to_string());
        let deed = Deed { caller, action: Action::StatusReport, target };
        let reported = self.report_of(&deed, own, request).await;
        self.audited(&deed, reported, |_| None).await
    }

    async fn report_of(
        &self,
        deed: &Deed<'_>,
        own: Option<Arc<AgentState>>,
        request: ReportStatus,
    ) -> Result<Reported, Error> {
        let target = own.as_ref().map_or(Target::Fleet, |state| Target::Agent(target_of(state)));
        self.permit(deed, target).await?;
        let state = own.ok_or_else(|| Error::AgentNotFound(deed.caller.principal.name.clone()))?;
        let (name, status) = (state.agent.name.clone(), state.agent.sighting.status);
        let given_at = self.token_given_at(deed.caller.principal.token_id).await?;
        if is_outdated(&state, given_at) {
            let message =
                "this token is from before the agent's last start; the report changes nothing".to_owned();
            return Ok(Reported { name, task: None, status, message });
        }
        let task = state.tasks.open.clone().filter(|task| task.work.working_since.is_some());
        let now = Utc::now();
        let claim = request.state.claim(request.question.as_deref()).map(|kind| Claim {
            kind,
            text: request.question.clone().unwrap_or_else(|| request.summary.clone()),
            at: now,
        });
        let claim = task.as_ref().map(|task| task.id).zip(claim.as_ref());
        self.store().task_claim(&entry(&state, task.as_ref(), &request, now), claim).await?;
        self.tasks_publish(state.agent.id).await?;
        let message = match (&task, claim) {
            (Some(_), Some(_)) => "noted; it ends the task you are working on".to_owned(),
            (Some(_) | None, _) => "noted".to_owned(),
        };
        let status = self.state_of(state.agent.id).await?.agent.sighting.status;
        Ok(Reported { name, task, status, message })
    }

    async fn token_given_at(&self, token: Option<TokenId>) -> Result<Option<DateTime<Utc>>, Error> {
        let Some(id) = token else { return Ok(None) };
        let tokens = self.store().tokens().await?;
        Ok(tokens.into_iter().find(|token| token.id == id).map(|token| token.created_at))
    }
}

/// Whoever speaks with a token from before this start is not the agent that runs now.
fn is_outdated(state: &AgentState, token_given_at: Option<DateTime<Utc>>) -> bool {
    token_given_at.zip(state.live.started_at).is_some_and(|(given, started)| given < started)
}

fn entry(
    state: &AgentState,
    task: Option<&Task>,
    request: &ReportStatus,
    now: DateTime<Utc>,
) -> HistoryEntry {
    HistoryEntry {
        id: Uuid::now_v7(),
        agent_id: state.agent.id,
        kind: HistoryKind::Report,
        message: request.question.clone().unwrap_or_else(|| request.summary.clone()),
        state: request.state.word().to_owned(),
        outcome: None,
        source: TaskSource::Agent,
        task_id: task.map(|task| task.id),
        uri: request.uri.clone(),
        needs_user_attention: request.question.is_some(),
        generation: state.agent.sighting.generation,
        created_at: now,
    }
}
