//! An overview of the whole fleet.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Fleet;
use super::caller::{AuditedCall, Caller};
use super::error::Error;
use super::health::CoderHealth;
use super::snapshot::{AgentState, Snapshot};
use crate::domain::access::{Action, Target};
use crate::domain::agent::{AgentStatus, Attention};
use crate::domain::name::AgentName;
use crate::domain::usage::UsageTotal;

pub use super::slots::SlotUse;

#[derive(Debug, Clone)]
pub struct FleetOverview {
    pub counts: BTreeMap<AgentStatus, u64>,
    pub slots: SlotUse,
    pub attention: Vec<Notice>,
    /// The usage of all agents on this UTC day.
    pub spend_today: UsageTotal,
    pub coder: CoderHealth,
    /// The state per external MCP server behind this server, by name.
    pub mcp_servers: BTreeMap<String, String>,
    /// The total usage per live agent, workspaces for runs included.
    pub usage: Vec<(AgentName, UsageTotal)>,
    pub observed_at: Option<DateTime<Utc>>,
}

/// An agent that needs attention, and the next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub agent: AgentName,
    pub attention: Attention,
    pub reason: String,
    pub next_action: String,
}

impl Fleet {
    pub async fn fleet_status(&self, caller: &Caller) -> Result<FleetOverview, Error> {
        let call = AuditedCall { caller, action: Action::FleetStatus, target: None };
        self.permit(&call, Target::Fleet).await?;
        let snapshot = self.board().now();
        Ok(FleetOverview {
            counts: snapshot.counts(),
            slots: self.0.slots.in_use(),
            attention: snapshot.agents.values().filter_map(|state| notice_of(state)).collect(),
            spend_today: self.store().usage_on(Utc::now()).await?,
            coder: self.health().now(),
            mcp_servers: routed_servers(),
            usage: usage_of(&snapshot),
            observed_at: snapshot.observed_at,
        })
    }
}

/// Empty: no setting configures an external MCP server, and an unknown key stops the start.
fn routed_servers() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// Agents with any counted usage.
fn usage_of(snapshot: &Snapshot) -> Vec<(AgentName, UsageTotal)> {
    let counted = snapshot.agents.values().filter(|state| !state.usage.is_empty());
    counted.map(|state| (state.agent.name.clone(), state.usage)).collect()
}

fn notice_of(state: &AgentState) -> Option<Notice> {
    let sighting = &state.agent.sighting;
    let name = &state.agent.name;
    let next_action = match (sighting.attention, sighting.status) {
        // Without a workspace there is nothing to start.
        (Attention::None | Attention::Unreachable, AgentStatus::Failed)
            if state.agent.workspace_id.is_none() =>
        {
            format!("Call delete_agent for '{name}', then create_agent with corrected input.")
        }
        (Attention::None | Attention::Unreachable, AgentStatus::Failed)
        | (Attention::Unreachable, AgentStatus::Canceled) => {
            format!("Call show_agent for '{name}', then start_agent or delete_agent.")
        }
        (Attention::None, _) => return None,
        (Attention::Stuck, _) => {
            format!("Call show_agent_log for '{name}'; if it hangs, call cancel_agent_task.")
        }
        (Attention::NeedsInput, _) => format!("Answer '{name}' with start_agent_task."),
        (Attention::FailedTask, _) => {
            format!("Call show_agent_task_history for '{name}', then start_agent_task with a corrected task.")
        }
        (Attention::Unreachable, _) if state.live.is_connected() => {
            format!(
                "Call restart_agent for '{name}': its workspace is running, but the agent in it does not \
                respond."
            )
        }
        (Attention::Unreachable, _) => {
            format!("Wait 30 seconds; if '{name}' stays unreachable, call restart_agent.")
        }
        (Attention::Parked, _) => format!("Nothing to do: '{name}' continues when its usage limit resets."),
        (Attention::OverBudget, _) => {
            format!(
                "Raise max_cost_usd or max_tokens for '{name}' and restart the server, or call delete_agent."
            )
        }
    };
    Some(Notice {
        agent: name.clone(),
        attention: sighting.attention,
        reason: sighting.reason.clone(),
        next_action,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::snapshot::tests::agent;
    use crate::domain::id::WorkspaceId;
    use crate::domain::metadata::Metadata;
    use crate::domain::role::RoleKind;
    use crate::store::LatestTasks;

    #[test]
    fn the_next_action_is_one_that_can_help() {
        let advice = |status, workspace_id| {
            let mut agent = agent(Utc::now());
            agent.workspace_id = workspace_id;
            (agent.sighting.status, agent.sighting.attention) = (status, Attention::Unreachable);
            let state = AgentState::new(agent, RoleKind::Coding, LatestTasks::default(), Metadata::new());
            notice_of(&state).unwrap().next_action
        };
        let workspace = Some(WorkspaceId(uuid::Uuid::nil()));
        let start = "Call show_agent for 'one', then start_agent or delete_agent.";
        assert_eq!(advice(AgentStatus::Failed, workspace), start);
        assert_eq!(advice(AgentStatus::Canceled, workspace), start);
        let anew = "Call delete_agent for 'one', then create_agent with corrected input.";
        assert_eq!(advice(AgentStatus::Failed, None), anew);
    }
}
