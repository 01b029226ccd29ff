//! The history of an agent, also after its deletion.

use std::collections::HashMap;

use super::Fleet;
use super::caller::{AuditedCall, Caller};
use super::error::Error;
use crate::domain::access::{Action, Target};
use crate::domain::agent::Agent;
use crate::domain::history::{HistoryEntry, HistoryKind};
use crate::domain::id::{AgentId, TaskId, WorkspaceId};
use crate::domain::name::{AgentName, name_key};
use crate::domain::page::{Page, PageRequest};
use crate::domain::task::{Task, TaskMove, Verified};
use crate::store::HistoryPage;

#[derive(Debug, Clone)]
pub struct ShowHistory {
    pub name: String,
    pub kind: Option<HistoryKind>,
    pub page: PageRequest,
    /// Selects an older agent with the same name.
    pub workspace: Option<WorkspaceId>,
}

#[derive(Debug, Clone)]
pub struct AgentHistory {
    pub name: AgentName,
    pub page: Page<HistoryEntry>,
    /// The state changes per task of the page.
    pub moves: HashMap<TaskId, Vec<TaskMove>>,
    /// The verification per task of the page.
    pub verified: HashMap<TaskId, Verified>,
}

impl Fleet {
    pub async fn agent_history(&self, caller: &Caller, request: ShowHistory) -> Result<AgentHistory, Error> {
        let call = AuditedCall { caller, action: Action::AgentHistory, target: Some(request.name.clone()) };
        self.permit(&call, Target::Fleet).await?;
        let agent = self.agent_of_history(&request).await?;
        let read = self.store().history_page(agent.id, request.kind, request.page).await?;
        let HistoryPage { page, moves, verified } = read;
        // An end is recorded before the board shows it; publish it now, so that no later answer calls the task
        // current.
        if self.shows_open(agent.id, &ended_in(&moves)) {
            self.tasks_publish(agent.id).await?;
        }
        Ok(AgentHistory { name: agent.name, page, moves, verified })
    }

    fn shows_open(&self, agent: AgentId, tasks: &[TaskId]) -> bool {
        let is_one = |task: &Task| tasks.contains(&task.id);
        self.board()
            .now()
            .by_id(agent)
            .is_some_and(|state| [&state.tasks.open, &state.tasks.running].into_iter().flatten().any(is_one))
    }

    async fn agent_of_history(&self, request: &ShowHistory) -> Result<Agent, Error> {
        let key = name_key(&request.name);
        let found = match request.workspace {
            Some(workspace) => {
                self.store().agent_by_workspace(workspace).await?.filter(|agent| agent.name.key() == key)
            }
            None => self.store().agent_newest_by_name(&key).await?,
        };
        found.ok_or_else(|| Error::AgentNotFound(request.name.clone()))
    }
}

fn ended_in(moves: &HashMap<TaskId, Vec<TaskMove>>) -> Vec<TaskId> {
    let is_ended = |moves: &[TaskMove]| moves.last().is_some_and(|last| last.state.is_ended());
    moves.iter().filter(|(_, moves)| is_ended(moves)).map(|(id, _)| *id).collect()
}
