//! What callers send: one struct a tool, shared by MCP arguments, REST bodies and queries, turned into app commands.

mod agent;
mod check;
mod defaults;
mod read;
mod squad;
mod task;
mod token;

use serde::de::DeserializeOwned;

use crate::app::error::Error;

pub use agent::{
    ChangeAgentInput, CreateAgentInput, DeleteAgentInput, ListAgentsInput, SetMetadataInput, ShowAgentInput,
    WaitInput,
};
pub use read::{HistoryInput, NoInput, PageInput, RolesInput};
pub use squad::{AskSquads, SquadMemberInput, SquadStatusInput, StartSquadInput};
pub use task::{CancelTaskInput, LogInput, ReportInput, StartTaskInput};
pub use token::CreateTokenInput;

/// The longest a call may wait, so that it answers before its client gives up.
pub const MAX_WAIT_SECONDS: i64 = 45;
const DEFAULT_WAIT_FOR_CHANGE: i64 = 40;

/// Reads a request from JSON; the error names the field.
pub fn parse<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let message = error.inner().to_string();
        let path = error.path().to_string();
        let field = if path == "." || message.starts_with("unknown field") {
            quoted(&message).unwrap_or(path)
        } else {
            path
        };
        Error::invalid(&field, message)
    })
}

/// serde names a missing or unknown field in backticks only.
fn quoted(message: &str) -> Option<String> {
    message.split('`').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests;
