//! The stream of a workspace agent's metadata.

use super::answers::{Answer, Reply};
use super::routes::Call;
use super::shapes;
use super::state::{Agent, State, Workspace};
use serde_json::Value;

/// One event, then the end of the stream: the server below cannot keep an answer open.
pub(super) fn watch_metadata(state: &mut State, call: &Call) -> Answer {
    let (workspace, _) = find(state, call)?;
    let items: Value = workspace
        .metadata
        .iter()
        .map(|item| shapes::agent_item(item, &format!("cat {}", item.key)))
        .collect();
    Ok(Reply::text(200, "text/event-stream", &format!("event: data\ndata: {items}\n\n")))
}

fn find<'a>(state: &'a State, call: &Call) -> Result<(&'a Workspace, &'a Agent), Reply> {
    let id = call.uuid(0)?;
    state
        .workspaces
        .iter()
        .filter_map(|workspace| Some((workspace, workspace.latest().agent.as_ref()?)))
        .find(|(_, agent)| agent.id == id)
        .ok_or_else(|| {
            Reply::error(404, "Agent doesn't exist with that id, or you do not have access to it.")
        })
}
