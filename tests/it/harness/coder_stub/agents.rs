//! Endpoints about workspace agents, and the one that agents call about themselves.

use super::answers::{Answer, Reply, Validation, json_object};
use super::routes::Call;
use super::shapes;
use super::state::{Agent, State, Workspace};
use serde_json::{Map, Value};
use uuid::Uuid;

const MESSAGE_LIMIT: usize = 160;

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

pub(super) fn app_status(state: &mut State, call: &Call) -> Answer {
    let workspace = authenticated(state, call.header("coder-session-token").unwrap_or_default())?;
    let body = json_object(&call.body)?;
    check_report(&body)?;
    workspace.report(text(&body, "state"), &cleaned(text(&body, "message")), text(&body, "uri"));
    Ok(Reply::json(200, Value::Null))
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

/// The workspace whose current agent holds this token, connected or not.
fn authenticated<'a>(state: &'a mut State, token: &str) -> Result<&'a mut Workspace, Reply> {
    let Ok(token) = Uuid::parse_str(token) else {
        let detail = format!("An agent token must be a valid UUIDv4. (len {})", token.len());
        return Err(Reply::error(401, "Workspace agent token invalid.").detail(&detail));
    };
    let holds = |workspace: &&mut Workspace| {
        workspace.latest().agent.as_ref().is_some_and(|agent| agent.token == token)
    };
    state.workspaces.iter_mut().find(holds).ok_or_else(|| {
        Reply::error(401, "Workspace agent not authorized.").detail(
            "The agent cannot authenticate until the workspace provision job has been completed. \
             If the job is no longer running, this agent is invalid.",
        )
    })
}

fn check_report(body: &Map<String, Value>) -> Result<(), Reply> {
    let (state, slug) = (text(body, "state"), text(body, "app_slug"));
    if text(body, "message").len() > MESSAGE_LIMIT {
        let detail = "Message must be less than 160 characters.";
        return Err(Reply::error(400, "Message is too long.")
            .detail(detail)
            .validations(&[Validation::new("message", detail)]));
    }
    if !matches!(state, "working" | "idle" | "complete" | "failure") {
        return Err(Reply::error(400, "Failed to parse request.").detail(&format!("Invalid state: {state}")));
    }
    if slug != shapes::APP_SLUG {
        let detail = format!("No app found with slug \"{slug}\"");
        return Err(Reply::error(400, "Failed to get workspace app.").detail(&detail));
    }
    Ok(())
}

/// What Coder keeps of a message: no line breaks, no markup, no invisible characters.
fn cleaned(message: &str) -> String {
    let mut kept = String::new();
    let mut in_tag = false;
    for letter in message.chars() {
        match letter {
            '<' => in_tag = true,
            '>' if in_tag => in_tag = false,
            _ if in_tag => {}
            '\n' | '\r' => kept.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => {}
            other => kept.push(other),
        }
    }
    kept
}

fn text<'a>(body: &'a Map<String, Value>, field: &str) -> &'a str {
    body.get(field).and_then(Value::as_str).unwrap_or_default()
}
