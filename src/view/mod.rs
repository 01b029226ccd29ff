//! Outward shapes shared by MCP, REST and `--json` output; names and fields are the contract.

pub mod agent;
pub mod catalog;
pub mod doctor;
pub mod error;
pub mod fleet;
pub mod history;
pub mod json;
pub mod log;
pub mod operation;
mod output;
pub mod paging;
pub mod request;
pub mod rescue;
pub(crate) mod shorten;
pub mod squad;
pub mod task;
pub mod token;
pub mod usage;

use chrono::{DateTime, SecondsFormat, Utc};

/// RFC 3339 in UTC with `Z`, to the millisecond.
pub fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
