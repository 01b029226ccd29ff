//! The JSON of everything the embedded Coder returns, key for key as a real server sends it.

mod agent;
mod build;
mod deployment;
mod template;
mod workspace;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

pub(crate) use agent::metadata;
pub(crate) use build::{build, log_line, values};
pub(crate) use deployment::{build_info, organization};
pub(crate) use template::{parameter, presets, template};
pub(crate) use workspace::workspace;

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// An unset time is absent, not null.
fn put_time(shape: &mut Value, key: &str, at: Option<DateTime<Utc>>) {
    if let Some(at) = at {
        shape[key] = json!(time(at));
    }
}
