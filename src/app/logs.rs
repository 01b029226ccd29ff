//! An agent's log: its conversation, read from the agent if it responds and from the stored copy otherwise.

use super::Fleet;
use super::caller::{AuditedCall, Caller};
use super::error::Error;
use super::snapshot::AgentState;
use crate::domain::access::{Action, AgentTarget, Target};
use crate::domain::agent::Agent;
use crate::domain::app::AppSeen;
use crate::domain::id::AgentId;
use crate::domain::log::LogEntry;
use crate::domain::name::{AgentName, name_key};
use crate::domain::page::{Page, PageRequest};

#[derive(Debug, Clone)]
pub struct ShowLog {
    pub name: String,
    pub page: PageRequest,
}

#[derive(Debug, Clone)]
pub struct AgentLog {
    pub name: AgentName,
    pub page: Page<LogEntry>,
}

impl Fleet {
    pub async fn agent_log(&self, caller: &Caller, request: ShowLog) -> Result<AgentLog, Error> {
        let call = AuditedCall { caller, action: Action::AgentLog, target: Some(request.name.clone()) };
        let Some(agent) = self.store().agent_newest_by_name(&name_key(&request.name)).await? else {
            self.permit(&call, Target::Absent).await?;
            return Err(self.agent_not_found(&request.name));
        };
        self.permit(&call, Target::Agent(self.log_target(&agent))).await?;
        if let Some(state) = self.board().now().by_id(agent.id).cloned()
            && state.agent.sighting.status.is_ready()
        {
            let app = self.app_probe(&state).await;
            self.log_keep(&state, &app).await;
        }
        let page = self.store().log_page(agent.id, request.page).await?;
        Ok(AgentLog { name: agent.name, page })
    }

    /// Stores the log of an agent that is about to stop; an agent that does not respond delays nothing. The status
    /// may already be `stopping`, so that only a probe shows whether the app responds.
    pub(super) async fn log_keep_last(&self, agent: AgentId) {
        let Some(state) = self.board().now().by_id(agent).cloned() else { return };
        let app = self.app_probe_briefly(&state).await;
        self.log_keep(&state, &app).await;
    }

    /// Stores a copy of the app's messages; a failed write delays nothing.
    pub(super) async fn log_keep(&self, state: &AgentState, app: &AppSeen) {
        let conversation = match app {
            // Our runner keeps its conversation over restarts; any other app starts a new one.
            AppSeen::Runner(_) => 0,
            AppSeen::AgentApi(_) => state.agent.sighting.generation,
            AppSeen::Unasked | AppSeen::Absent | AppSeen::Foreign | AppSeen::Silent { .. } => return,
        };
        let entries: Vec<LogEntry> =
            app.messages().iter().map(|message| LogEntry::of(message, conversation)).collect();
        if let Err(error) = self.store().log_add(state.agent.id, &entries).await {
            tracing::warn!(agent.name = %state.agent.name, %error, "the agent's log could not be stored");
        }
    }

    fn log_target<'a>(&self, agent: &'a Agent) -> AgentTarget<'a> {
        AgentTarget {
            id: agent.id,
            project: &agent.project,
            kind: self.role_kind_or_coding(&agent.role),
            created_by: agent.created_by.as_deref(),
        }
    }
}
