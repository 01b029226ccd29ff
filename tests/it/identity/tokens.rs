//! An agent's token: lets it act on itself, and dies with the start it was made for.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Program, Reply, Up, error_of, eventually};

const AGENTS: &str = "/api/v1/agents";

async fn up() -> Up {
    Up::start(&Program::without_coder()).await
}

/// What a bearer of a token is told, without what changes from call to call.
fn refusal(reply: &Reply) -> (u16, &str, &str, &str, &str) {
    let text = |field: &str| reply.body[field].as_str().unwrap_or_default();
    let challenge = reply.headers["www-authenticate"].to_str().unwrap();
    (reply.status, text("code"), text("error"), text("message"), challenge)
}

fn refused(message: &str) -> (u16, &'static str, &'static str, &str, &'static str) {
    (401, "UNAUTHENTICATED", "invalid_token", message, r#"Bearer error="invalid_token""#)
}

async fn minted(up: &Up, body: Value) -> (String, String) {
    let made = up.post("/api/v1/tokens", &body).await;
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

#[tokio::test]
async fn an_agent_acts_on_itself_by_its_token_alone_and_on_no_other_agent() {
    let up = up().await;
    up.agent("otter").await;
    up.agent("heron").await;
    let token = up.token_of("otter");
    let set =
        up.tool_as(&token, "set_agent_metadata", &json!({ "key": "fleet_mcp_note", "value": "mine" })).await;
    assert_eq!(set["structuredContent"]["agent_name"], "otter");
    assert_eq!(set["structuredContent"]["metadata"]["fleet_mcp_note"], "mine");

    let other = json!({ "agent_name": "heron", "key": "fleet_mcp_note", "value": "not mine" });
    let denied = up.tool_as(&token, "set_agent_metadata", &other).await;
    let told = json!({
        "code": "FORBIDDEN",
        "message": "an agent may do this only to itself",
        "retryable": false,
        "next_action": "Ask an operator to do this, or to give you a token with this right.",
        "instance_id": null,
        "tool_name": "set_agent_metadata",
        "details": {}
    });
    assert_eq!((&denied["isError"], error_of(&denied)), (&json!(true), told));
    let shown = up.show("heron").await;
    assert_eq!(shown["metadata"].get("fleet_mcp_note"), None);
    for (method, path) in [
        (Method::GET, "/api/v1/agents/heron"),
        (Method::DELETE, "/api/v1/agents/otter"),
        (Method::POST, "/api/v1/agents/otter/stop"),
        (Method::GET, "/api/v1/tokens"),
        (Method::GET, "/api/v1/rescues"),
    ] {
        let body = if method == Method::POST { json!({}) } else { Value::Null };
        assert_eq!(up.call_as(&token, method, path, &body).await.status, 403, "{path}");
    }
    let trail = up.get("/api/v1/audit").await;
    let rows: Vec<(&str, &str, &str, &str)> = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["principal"] == "otter")
        .map(|row| {
            let text = |field: &str| row[field].as_str().unwrap_or_default();
            (text("principal_kind"), text("action"), text("target"), text("outcome"))
        })
        .collect();
    let expected = [
        ("coding", "list_rescues", "", "denied"),
        ("coding", "manage_tokens", "", "denied"),
        ("coding", "stop_agent", "otter", "denied"),
        ("coding", "delete_agent", "otter", "denied"),
        ("coding", "show_agent", "heron", "denied"),
        ("coding", "set_agent_metadata", "heron", "denied"),
        ("coding", "set_agent_metadata", "otter", "allowed"),
    ];
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn a_token_lives_with_one_start_and_a_stop_ends_all_of_an_agents_tokens() {
    let up = up().await;
    up.agent("otter").await;
    let first = up.token_of("otter");
    let (_, beside) = minted(&up, json!({ "kind": "agent", "agent": "otter" })).await;
    for token in [&first, &beside] {
        assert_eq!(up.get_as(token, AGENTS).await.status, 200);
    }
    up.change("otter", "stop").await;
    for token in [&first, &beside] {
        let reply = up.get_as(token, AGENTS).await;
        assert_eq!(refusal(&reply), refused("the agent of this token is stopped"));
    }
    let (operator, body) = (up.operator_token(), json!({ "kind": "agent", "agent": "otter" }));
    let none = up.call_as(&operator, Method::POST, "/api/v1/tokens", &body).await;
    assert_eq!((none.status, &none.body["code"]), (409, &json!("AGENT_NOT_READY")));

    up.change("otter", "start").await;
    up.provisioned("otter").await;
    let second = up.token_of("otter");
    assert_ne!(first, second);
    assert_eq!(up.get_as(&second, AGENTS).await.status, 200);
    for token in [&first, &beside] {
        let reply = up.get_as(token, AGENTS).await;
        let message = "the agent of this token was restarted and has a new token";
        assert_eq!(refusal(&reply), refused(message));
        assert_eq!(reply.body["next_action"], "Read the agent's new token from $FLEET_AGENT_DIR/token.");
    }
}

#[tokio::test]
async fn a_deleted_agents_token_is_dead_also_for_its_namesake() {
    let up = up().await;
    up.agent("otter").await;
    let token = up.token_of("otter");
    up.delete("otter", "&keep_work=false").await;
    let gone = refused("the agent of this token is deleted");
    assert_eq!(refusal(&up.get_as(&token, AGENTS).await), gone);
    up.agent("otter").await;
    assert_eq!(refusal(&up.get_as(&token, AGENTS).await), gone);
}

#[tokio::test]
async fn tokens_that_were_revoked_or_have_expired_are_refused_and_strangers_learn_nothing() {
    let up = up().await;
    up.agent("otter").await;
    let (id, revoked) = minted(&up, json!({ "kind": "agent", "agent": "otter" })).await;
    assert_eq!(up.get_as(&revoked, AGENTS).await.status, 200);
    let path = format!("/api/v1/tokens/{id}");
    assert_eq!(up.call_as(&up.operator_token(), Method::DELETE, &path, &Value::Null).await.status, 200);
    assert_eq!(refusal(&up.get_as(&revoked, AGENTS).await), refused("the token was revoked"));

    let short = json!({ "kind": "agent", "agent": "otter", "expires_in_seconds": 1 });
    let (_, expired) = minted(&up, short).await;
    eventually("it has expired", async || up.get_as(&expired, AGENTS).await.status == 401).await;
    assert_eq!(refusal(&up.get_as(&expired, AGENTS).await), refused("the token has expired"));

    let unknown = refused("the token is unknown, expired or revoked");
    for stranger in ["fleet_0123", "something-else", &format!("{revoked}0")] {
        assert_eq!(refusal(&up.get_as(stranger, AGENTS).await), unknown);
    }
}

#[tokio::test]
async fn a_call_with_a_dead_token_leaves_a_row_that_says_who_tried_what_and_why_not() {
    let up = up().await;
    up.agent("otter").await;
    let first = up.token_of("otter");
    let (id, revoked) = minted(&up, json!({ "kind": "manager" })).await;
    let (_, expired) = minted(&up, json!({ "kind": "manager", "expires_in_seconds": 1 })).await;
    up.change("otter", "stop").await;
    let report = json!({ "state": "working", "summary": "x" });
    assert_eq!(up.tool_reply_as(&first, "report_status", &report).await.status, 401);
    let metadata = json!({ "key": "fleet_mcp_note", "value": "x" });
    let path = "/api/v1/agents/otter/metadata";
    assert_eq!(up.call_as(&first, Method::POST, path, &metadata).await.status, 401);
    up.change("otter", "start").await;
    up.provisioned("otter").await;
    assert_eq!(up.get_as(&first, AGENTS).await.status, 401);
    eventually("it has expired", async || {
        up.tool_reply_as(&expired, "list_agents", &json!({})).await.body["message"] == "the token has expired"
    })
    .await;
    let trail = up.get("/api/v1/audit?page_size=100").await["total_count"].as_i64().unwrap();
    let operator = up.operator_token();
    up.call_as(&operator, Method::DELETE, &format!("/api/v1/tokens/{id}"), &Value::Null).await;
    let other = json!({ "agent_name": "otter" });
    assert_eq!(up.tool_reply_as(&revoked, "stop_agent", &other).await.status, 401);
    for stranger in [&format!("{first}0"), "fleet_0123", "something-else"] {
        assert_eq!(up.tool_reply_as(stranger, "stop_agent", &other).await.status, 401);
    }

    let listed = up.get("/api/v1/audit?page_size=100").await;
    assert_eq!(listed["total_count"], trail + 2, "the revocation and the call after it");
    let rows = refused_calls(&listed);
    let anew = "the agent of this token was restarted and has a new token";
    let stopped = "the agent of this token is stopped";
    let expected = [
        ("manager", "mcp", "stop_agent", "otter", "the token was revoked"),
        ("manager", "mcp", "list_agents", "", "the token has expired"),
        ("otter", "rest", "list_agents", "", anew),
        ("otter", "rest", "set_agent_metadata", "otter", stopped),
        ("otter", "mcp", "report_status", "", stopped),
    ];
    assert_eq!(rows, expected);
    let text = listed.to_string();
    assert!(![first, revoked, expired].iter().any(|token| text.contains(token.as_str())));
}

/// Who, by which way, what, about whom, why not: of all calls that were not let in.
fn refused_calls(trail: &Value) -> Vec<(&str, &str, &str, &str, &str)> {
    let rows = trail["entries"].as_array().unwrap().iter().filter(|row| row["code"] == "UNAUTHENTICATED");
    let mut rows: Vec<_> = rows
        .map(|row| {
            assert_eq!(row["outcome"], "denied");
            let text = |field: &str| row[field].as_str().unwrap_or_default();
            (text("principal"), text("surface"), text("action"), text("target"), text("reason"))
        })
        .collect();
    // How often the test had to ask until the token had expired is its own business.
    rows.dedup();
    rows
}

#[tokio::test]
async fn a_manager_among_the_agents_manages_its_own_children_only() {
    let up = up().await;
    up.agent("child").await;
    up.agent_with(json!({ "project": "setup", "spec": "say hello", "name": "operator", "role": "manager" }))
        .await;
    let token = up.token_of("operator");
    let request = json!({ "project": "setup", "spec": "say hello", "name": "own", "wait_seconds": 45 });
    assert_eq!(up.call_as(&token, Method::POST, AGENTS, &request).await.status, 201);
    up.provisioned("own").await;
    let boss = json!({ "project": "setup", "spec": "x", "name": "boss", "role": "manager" });
    assert_eq!(up.call_as(&token, Method::POST, AGENTS, &boss).await.status, 403);
    // The operator has made this one, and has the manager's name.
    let foreign = up.call_as(&token, Method::DELETE, "/api/v1/agents/child", &Value::Null).await;
    assert_eq!((foreign.status, &foreign.body["code"]), (403, &json!("FORBIDDEN")));

    let childs = up.token_of("own");
    assert_eq!(up.get_as(&childs, AGENTS).await.status, 200);
    let tokens = up.get("/api/v1/tokens").await;
    let of_manager = tokens["tokens"].as_array().unwrap().iter().find(|row| row["agent"] == "operator");
    let path = format!("/api/v1/tokens/{}", of_manager.unwrap()["id"].as_str().unwrap());
    let revoked = up.call_as(&up.operator_token(), Method::DELETE, &path, &Value::Null).await;
    assert_eq!(revoked.body["revoked_count"], 2);
    assert_eq!(refusal(&up.get_as(&childs, AGENTS).await), refused("the token was revoked"));
}
