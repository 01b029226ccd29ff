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
        description: "Creates, starts, stops, restarts and deletes of agents that are under way, newest first, \
            with how far each has come; with include_ended also those that have ended, and how. Use it when an \
            agent stays in the same state for long.",
        effect: Effect::Reads,
    };
    let cancel = About {
        action: Action::OperationCancel,
        title: "Cancel an operation",
        description: "Ends a create, start, stop, restart or delete that is under way. A build that runs for it is \
            canceled where Coder allows that; what a create has made is removed and its name is free again.",
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
