//! The state of the whole fleet as callers see it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::count;
use super::time;
use super::usage::is_zero;
use crate::app::fleet_status::{FleetOverview, Notice};
use crate::domain::usage::UsageTotal;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct FleetStatus {
    /// Agents by status.
    pub counts: BTreeMap<String, i64>,
    pub capacity: Capacity,
    pub attention: Vec<AttentionRow>,
    /// Known usage of all agents on this UTC day.
    pub spend_today: Spend,
    pub coder: CoderHealth,
    /// External MCP servers by name; always empty in this version.
    pub mcp_servers: BTreeMap<String, String>,
    pub observed_at: Option<String>,
}

/// Slots for workspace builds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct Capacity {
    pub used: i64,
    pub free: i64,
    pub queued: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AttentionRow {
    pub agent: String,
    pub attention: String,
    pub reason: String,
    /// The next action.
    pub next_action: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct Spend {
    /// The known cost; models without a known price are not included.
    pub usd: f64,
    pub tokens: i64,
    /// Number of runs that reported no usage and are not included; absent if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_runs: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct CoderHealth {
    pub reachable: bool,
    pub version: Option<String>,
    pub last_ok_at: Option<String>,
    pub error: Option<String>,
}

/// Answer of shut_down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ShuttingDown {
    pub message: String,
}

impl From<&FleetOverview> for FleetStatus {
    fn from(overview: &FleetOverview) -> Self {
        let health = &overview.coder;
        Self {
            counts: overview.counts.iter().map(|(status, n)| (status.word().to_owned(), count(*n))).collect(),
            capacity: Capacity {
                used: count(overview.slots.used),
                free: count(overview.slots.free),
                queued: count(overview.slots.queued),
            },
            attention: overview.attention.iter().map(AttentionRow::from).collect(),
            spend_today: Spend::from(&overview.spend_today),
            coder: CoderHealth {
                reachable: health.is_reachable(),
                version: health.version.clone(),
                last_ok_at: health.last_ok_at.map(time),
                error: health.error.clone(),
            },
            mcp_servers: overview.mcp_servers.clone(),
            observed_at: overview.observed_at.map(time),
        }
    }
}

impl From<&UsageTotal> for Spend {
    fn from(total: &UsageTotal) -> Self {
        Self {
            usd: total.all.cost_usd().unwrap_or_default(),
            tokens: count(total.all.tokens()),
            unknown_runs: count(total.all.unknown_runs),
        }
    }
}

impl From<&Notice> for AttentionRow {
    fn from(notice: &Notice) -> Self {
        Self {
            agent: notice.agent.to_string(),
            attention: notice.attention.word().into(),
            reason: notice.reason.clone(),
            next_action: notice.next_action.clone(),
        }
    }
}
