//! One tool call of a client, over REST or over MCP, with the same answer from both.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::ledger::Answer;
use crate::harness::{Api, mcp_answer, mcp_request, read};

/// Longer than any wait that a client asks for.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    Rest,
    Mcp,
}

/// A tool and its arguments.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

/// None when the server died over it, or was not there.
pub(super) async fn perform(api: &Api, token: &str, surface: Surface, call: &Call) -> Option<Answer> {
    let request = match surface {
        Surface::Rest => rest(api, call).bearer_auth(token),
        Surface::Mcp => {
            let params = json!({ "name": call.tool, "arguments": call.arguments });
            mcp_request(api, token, ("tools/call", call.tool), params)
        }
    };
    let reply = read(request.timeout(PATIENCE)).await.ok()?;
    match surface {
        Surface::Rest if reply.status < 300 => Some(Answer::Result(reply.body)),
        Surface::Rest => refused(&reply.body),
        Surface::Mcp => of_mcp(&mcp_answer(reply.body)),
    }
}

/// A stream that ended before its result is an answer that was lost.
fn of_mcp(answer: &Value) -> Option<Answer> {
    let result = &answer["result"];
    if result["isError"] == true {
        let text = result["content"][0]["text"].as_str()?;
        return refused(&serde_json::from_str(text).ok()?);
    }
    if let Some(error) = answer.get("error") {
        return Some(Answer::Refused { code: error["code"].to_string(), text: error.to_string() });
    }
    let content = result.get("structuredContent")?;
    Some(Answer::Result(content.clone()))
}

fn refused(body: &Value) -> Option<Answer> {
    let code = body["code"].as_str()?.to_owned();
    Some(Answer::Refused { code, text: body.to_string() })
}

fn rest(api: &Api, call: &Call) -> RequestBuilder {
    let mut body = call.arguments.clone();
    let name = body.as_object_mut().and_then(|fields| fields.remove("agent_name"));
    let name = name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let agent = format!("/api/v1/agents/{name}");
    let (method, path) = match call.tool {
        "create_agent" => (Method::POST, "/api/v1/agents".to_owned()),
        "list_agents" => (Method::GET, "/api/v1/agents".to_owned()),
        "fleet_status" => (Method::GET, "/api/v1/status".to_owned()),
        "show_agent" => (Method::GET, agent),
        "show_agent_task_history" => (Method::GET, format!("{agent}/history")),
        "show_agent_log" => (Method::GET, format!("{agent}/log")),
        "delete_agent" => (Method::DELETE, agent),
        "start_agent" => (Method::POST, format!("{agent}/start")),
        "stop_agent" => (Method::POST, format!("{agent}/stop")),
        "restart_agent" => (Method::POST, format!("{agent}/restart")),
        "start_agent_task" => (Method::POST, format!("{agent}/tasks")),
        "cancel_agent_task" => (Method::DELETE, format!("{agent}/tasks")),
        "set_agent_metadata" => (Method::POST, format!("{agent}/metadata")),
        "wait_for_agents" => (Method::POST, "/api/v1/wait".to_owned()),
        "start_squad_members" => (Method::POST, "/api/v1/squads".to_owned()),
        "squad_status" => (Method::GET, "/api/v1/squads".to_owned()),
        other => panic!("no route is known for {other}"),
    };
    let request = api.bare(method.clone(), &path);
    if method == Method::POST { request.json(&body) } else { request.query(&body) }
}
