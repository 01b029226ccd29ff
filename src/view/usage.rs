//! Usage of agents as callers see it: short in lists, complete for one agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::count;
use crate::domain::usage::UsageTotal;

/// Usage of an agent, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct UsageRow {
    /// Absent if no cost is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    pub tokens: i64,
    /// Number of runs that reported no usage and are not included; absent if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_runs: i64,
}

/// Usage of an agent, including squad members in its workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct UsageDetail {
    /// Null if no cost is known.
    pub cost_usd: Option<f64>,
    pub tokens: i64,
    /// All tokens read, including cached tokens.
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// Number of runs that reported no usage and are not included.
    pub unknown_runs: i64,
}

impl UsageRow {
    /// None when nothing is known.
    pub(super) fn of(total: &UsageTotal) -> Option<Self> {
        (!total.is_empty()).then(|| Self {
            cost_usd: total.all.cost_usd(),
            tokens: count(total.all.tokens()),
            unknown_runs: count(total.all.unknown_runs),
        })
    }
}

impl UsageDetail {
    /// None when nothing is known.
    pub(super) fn of(total: &UsageTotal) -> Option<Self> {
        (!total.is_empty()).then(|| Self {
            cost_usd: total.all.cost_usd(),
            tokens: count(total.all.tokens()),
            input_tokens: count(total.all.input_tokens),
            output_tokens: count(total.all.output_tokens),
            unknown_runs: count(total.all.unknown_runs),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}
