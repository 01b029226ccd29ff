//! The endpoint by which an agent reports the status of its app.

use std::sync::Arc;

use axum::extract::State;
use bytes::Bytes;
use chrono::Utc;
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::answer::{Answer, Refusal, Validation, object, ok};
use super::auth::AgentCaller;
use crate::coder::wire::AppStatus;
use crate::local::deployment_info::APP_SLUG;
use crate::local::record::Workspace;
use crate::local::{Deployment, prune};

/// In bytes, although Coder's message says characters.
const LONGEST_MESSAGE: usize = 160;
/// A real server has no limit. Every response about a workspace contains all reports, so ours needs one.
const LONGEST_ADDRESS: usize = 2_048;
/// More than the longest valid report.
pub(super) const BODY_LIMIT: usize = 16 * 1024;

pub(super) async fn report(State(state): State<Arc<Deployment>>, caller: AgentCaller, body: Bytes) -> Answer {
    let body = object(&body)?;
    check(&body)?;
    let ((), saving) = state.change(caller.workspace, |memory| {
        let workspace = memory.workspaces.get_mut(&caller.workspace).ok_or_else(Refusal::not_found)?;
        keep(workspace, caller, &body).ok_or_else(Refusal::not_found)
    })?;
    saving.done().await?;
    ok(&Value::Null)
}

fn check(body: &Map<String, Value>) -> Result<(), Refusal> {
    let bad = |message: &str, detail: &str| Refusal::new(StatusCode::BAD_REQUEST, message).detail(detail);
    if text(body, "message").len() > LONGEST_MESSAGE {
        let detail = "Message must be less than 160 characters.";
        return Err(bad("Message is too long.", detail).validations(&[Validation::new("message", detail)]));
    }
    if text(body, "uri").len() > LONGEST_ADDRESS {
        let detail = "URI must be at most 2048 bytes.";
        return Err(bad("URI is too long.", detail).validations(&[Validation::new("uri", detail)]));
    }
    let state = text(body, "state");
    if !matches!(state, "working" | "idle" | "complete" | "failure") {
        return Err(bad("Failed to parse request.", &format!("Invalid state: {state}")));
    }
    let slug = text(body, "app_slug");
    if slug != APP_SLUG {
        return Err(bad("Failed to get workspace app.", &format!("No app found with slug \"{slug}\"")));
    }
    Ok(())
}

fn keep(workspace: &mut Workspace, caller: AgentCaller, body: &Map<String, Value>) -> Option<()> {
    let workspace_id = workspace.id;
    let agent = workspace.agent_mut(caller.agent)?;
    let status = AppStatus {
        id: Uuid::new_v4(),
        created_at: Utc::now(),
        workspace_id,
        agent_id: agent.id,
        app_id: agent.app_id,
        state: text(body, "state").to_owned(),
        message: plain(text(body, "message")),
        uri: text(body, "uri").to_owned(),
        icon: String::new(),
        needs_user_attention: false,
    };
    agent.statuses.insert(0, status.clone());
    prune::trim_reports(agent);
    workspace.app_status = Some(status);
    Some(())
}

/// The message as Coder stores it: one line without markup and invisible characters.
fn plain(message: &str) -> String {
    let mut kept = String::new();
    let mut is_markup = false;
    for letter in message.chars() {
        match letter {
            '<' => is_markup = true,
            '>' if is_markup => is_markup = false,
            _ if is_markup => {}
            '\n' | '\r' | '\t' => kept.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => {}
            letter if letter.is_control() => {}
            letter => kept.push(letter),
        }
    }
    kept
}

fn text<'a>(body: &'a Map<String, Value>, field: &str) -> &'a str {
    body.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_message_is_kept_as_one_line_of_plain_text() {
        assert_eq!(plain("line1\nline2 <b>x</b> \u{202e}\u{200b} end\u{7}"), "line1 line2 x  end");
    }
}
