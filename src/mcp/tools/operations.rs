//! The tools that list running operations and cancel them.

use super::{About, Effect, Entry};
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::mcp::call::Call;
use crate::view::operation::{OperationCanceled, OperationList};
use crate::view::request::{CancelOperationInput, ListOperationsInput};

pub(super) fn tools() -> Vec<Entry> {
    let list = About {
        action: Action::OperationList,
        title: "List operations",
        description: "Lists the running creates, starts, stops, restarts and deletes of agents, newest \
            first, with their progress; with include_ended also those that have ended, with their result. \
            Use it if an agent stays in the same state for long.",
        effect: Effect::Reads,
    };
    let cancel = About {
        action: Action::OperationCancel,
        title: "Cancel an operation",
        description: "Cancels a running create, start, stop, restart or delete. Its build is canceled if \
            Coder allows it; the workspace of a canceled create is deleted and the agent's name is free \
            again.",
        effect: Effect::Ends,
    };
    vec![Entry::new(list, list_operations), Entry::new(cancel, cancel_operation)]
}

async fn list_operations(call: Call, input: ListOperationsInput) -> Result<OperationList, Error> {
    let page = call.fleet.operation_list(&call.caller, input.into_command()?).await?;
    Ok(OperationList::from(&page))
}

async fn cancel_operation(call: Call, input: CancelOperationInput) -> Result<OperationCanceled, Error> {
    let request = input.into_command()?;
    let canceled = call.reporting(request.wait, call.fleet.operation_cancel(&call.caller, request)).await?;
    Ok(OperationCanceled::from(&canceled))
}
