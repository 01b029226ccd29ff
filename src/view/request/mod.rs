//! Requests: one struct per tool, shared by MCP arguments, REST bodies and queries, converted to app commands.

mod agent;
mod check;
mod defaults;
mod operation;
mod read;
mod squad;
mod task;
mod token;
mod word;

use serde::de::DeserializeOwned;

use self::word::ONE_OF;
use crate::app::error::Error;

pub use agent::{
    ChangeAgentInput, CreateAgentInput, DeleteAgentInput, ListAgentsInput, SetMetadataInput, ShowAgentInput,
    WaitInput,
};
pub use operation::{CancelOperationInput, ListOperationsInput};
pub use read::{HistoryInput, NoInput, PageInput, RolesInput};
pub use squad::{SquadMemberInput, SquadQuery, SquadStatusInput, StartSquadInput};
pub use task::{CancelTaskInput, LogInput, ReportInput, StartTaskInput};
pub use token::CreateTokenInput;
pub use word::OneOf;

/// The maximum length of a request's body: far more than the largest escaped spec, and small enough to hold in memory.
pub const MAX_BODY_BYTES: usize = 1 << 20;
/// The maximum wait of a call, so that it answers before its client's timeout.
pub const MAX_WAIT_SECONDS: i64 = 45;
const DEFAULT_WAIT_FOR_CHANGE: i64 = 40;

/// Reads a request from JSON; the error names the field.
pub fn parse<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let message = error.inner().to_string();
        let path = error.path().to_string();
        let field = field(&path, &message);
        let message = if message.starts_with(ONE_OF) { format!("{field} is {message}") } else { message };
        Error::invalid(&field, message)
    })
}

/// The name of the wrong field: serde names a missing or unknown field only in backticks in its message; the path
/// leads to its parent, or to the field.
fn field(path: &str, message: &str) -> String {
    let is_nameless = message.starts_with("missing field") || message.starts_with("unknown field");
    let Some(name) = message.split('`').nth(1).filter(|_| is_nameless || path == ".") else {
        return path.to_owned();
    };
    match path {
        "." => name.to_owned(),
        path if path.rsplit('.').next() == Some(name) => path.to_owned(),
        path => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests;
