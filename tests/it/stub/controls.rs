//! What tests can do to the stub shows in its answers, and what clients did to it can be seen.

use crate::harness::{Api, CoderStub, Pace, ParamSpec, TemplateSpec, WorkspaceSummary, fixture, read};
use chrono::{DateTime, TimeDelta, Utc};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

async fn names(api: &Api, query: &str) -> Vec<String> {
    let body = api.get(&format!("/api/v2/workspaces?q={query}")).await.body;
    let rows = body["workspaces"].as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| row["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn list_finds_by_every_filter() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    stub.seed("agent", 3);
    stub.seed_foreign("alice", "agent-9");
    stub.set_build("agent-1", "succeeded", "stopped");
    stub.disconnect("agent-2");
    stub.delete_outside("agent-3");
    let id = stub.workspace("agent-2")["id"].clone();
    let by_id = format!("id:{}", id.as_str().unwrap_or_default());
    for (query, expected) in [
        ("", vec!["agent-9", "agent-2", "agent-1"]),
        ("owner:me", vec!["agent-2", "agent-1"]),
        ("owner:alice", vec!["agent-9"]),
        ("alice/agent", vec!["agent-9"]),
        ("AGENT-2", vec!["agent-2"]),
        ("name:agent owner:me status:running", vec!["agent-2"]),
        ("status:stopped", vec!["agent-1"]),
        ("status:deleted", vec!["agent-3"]),
        ("template:fleet owner:me", vec!["agent-2", "agent-1"]),
        ("template:nope", vec![]),
        ("has-agent:disconnected", vec!["agent-2"]),
        ("healthy:false", vec!["agent-2"]),
        ("param:role=coder owner:alice", vec!["agent-9"]),
        ("param:\"AI Prompt\"=other", vec![]),
        (by_id.as_str(), vec!["agent-2"]),
    ] {
        assert_eq!(names(&api, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn list_refuses_what_a_real_server_refuses() {
    let stub = CoderStub::start(Pace::Instant).await;
    for prefix in ["088", "089", "090", "091", "096", "097", "098"] {
        let recorded = fixture(prefix);
        let path = recorded.raw["request"]["path"].as_str().expect("a path");
        let ours = stub.api().get(path).await;
        let mut expected = recorded.body().clone();
        if expected["count"].is_number() {
            expected["count"] = json!(0);
        }
        assert_eq!((ours.status, ours.body), (recorded.status(), expected), "{prefix}");
    }
}

#[tokio::test]
async fn a_thousand_workspaces_come_in_pages_with_the_whole_count() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1000);
    let page = stub.api().get("/api/v2/workspaces?q=owner:me&limit=100&offset=950").await.body;
    let rows = page["workspaces"].as_array().map(Vec::len);
    assert_eq!((rows, &page["count"]), (Some(50), &json!(1000)));
}

#[tokio::test]
async fn metadata_is_in_the_list_only_where_it_was_asked_for() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    for (key, value) in [("fleet_mcp_role", "old"), ("fleet_mcp_role", "coder"), ("fleet_mcp_Branch", "main")]
    {
        stub.set_metadata("agent-1", key, value);
    }
    let api = stub.api();
    for (query, expected) in [
        ("", vec![]),
        ("include_agent_metadata:FLEET_MCP_ROLE", vec!["coder"]),
        ("include_agent_metadata:fleet_mcp_role,fleet_mcp_branch", vec!["coder", "main"]),
        (
            "include_agent_metadata:fleet_mcp_branch include_agent_metadata:fleet_mcp_role",
            vec!["coder", "main"],
        ),
        ("include_agent_metadata:unknown", vec![]),
    ] {
        let body = api.get(&format!("/api/v2/workspaces?q={query}")).await.body;
        let items = &body["workspaces"][0]["latest_build"]["resources"][0]["agents"][0]["metadata"];
        let values: Vec<&Value> =
            items.as_array().into_iter().flatten().map(|item| &item["result"]["value"]).collect();
        assert_eq!(json!(values), json!(expected), "{query}");
    }
}

#[tokio::test]
async fn agent_words_times_and_reports_can_be_set() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    stub.post_app_status("agent-1", "complete", "All done");
    stub.set_agent("agent-1", "timeout", "start_timeout");
    stub.backdate("agent-1", TimeDelta::minutes(10));
    let shown = stub.workspace("agent-1");
    let agent = &shown["latest_build"]["resources"][0]["agents"][0];
    let words = (&agent["status"], &agent["lifecycle_state"], &shown["latest_app_status"]["state"]);
    assert_eq!(words, (&json!("timeout"), &json!("start_timeout"), &json!("complete")));
    let built: DateTime<Utc> =
        serde_json::from_value(shown["latest_build"]["job"]["completed_at"].clone()).unwrap();
    assert!(Utc::now() - built >= TimeDelta::minutes(10));
}

#[tokio::test]
async fn an_app_status_outlives_its_build() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    stub.post_app_status("agent-1", "idle", "Waiting");
    let before = stub.workspace("agent-1");
    let id = before["id"].as_str().expect("an id");
    let restart = json!({ "transition": "stop", "on_success": { "transition": "start" } });
    stub.api().post(&format!("/api/v2/workspaces/{id}/builds"), &restart).await;
    let after = stub.workspace("agent-1");
    let agent = |workspace: &Value| workspace["latest_build"]["resources"][0]["agents"][0]["id"].clone();
    assert_eq!(after["latest_app_status"], before["latest_app_status"]);
    assert_eq!(after["latest_app_status"]["agent_id"], agent(&before));
    assert_ne!(agent(&after), agent(&before));
}

#[tokio::test]
async fn a_template_of_the_same_name_is_a_new_version() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    stub.seed("agent", 1);
    let of = |preset: &Value| (preset["Name"].clone(), preset["Default"].clone());
    let spec = TemplateSpec::new("fleet")
        .display_name("The fleet")
        .param(ParamSpec::text("AI Prompt").default("").fixed())
        .param(ParamSpec::number("size", 1, 3).default("2").options(&["1", "2"]))
        .preset("qa", &[("size", "1")]);
    stub.template_add(spec);
    let template = api.get("/api/v2/organizations/coder/templates/fleet").await.body;
    let version = template["active_version_id"].as_str().expect("an id");
    let presets = api.get(&format!("/api/v2/templateversions/{version}/presets")).await.body;
    assert_eq!(template["display_name"], "The fleet");
    assert_eq!(of(&presets[0]), (json!("qa"), json!(true)));
    assert_eq!(stub.workspace("agent-1")["outdated"], true);
}

#[tokio::test]
async fn calls_are_counted_by_route() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    let api = stub.api();
    api.get("/api/v2/buildinfo").await;
    stub.reset_calls();
    let id = stub.workspace("agent-1")["id"].as_str().expect("an id").to_owned();
    for _ in 0..2 {
        api.get(&format!("/api/v2/workspaces/{id}")).await;
    }
    Api::new(stub.url(), "bad-token").get("/api/v2/workspaces?limit=1").await;
    api.get("/api/v2/tasks").await;
    let counted =
        [("GET /api/v2/tasks", 1), ("GET /api/v2/workspaces", 1), ("GET /api/v2/workspaces/{id}", 2)];
    assert_eq!(stub.calls(), BTreeMap::from(counted.map(|(route, count)| (route.to_owned(), count))));
}

#[tokio::test]
async fn every_answer_carries_version_and_rate_limit() {
    let stub = CoderStub::start(Pace::Instant).await;
    let reply = stub.api().get("/api/v2/nonexistent").await;
    for header in ["x-coder-build-version", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
    {
        assert!(reply.headers.contains_key(header), "{header}");
    }
}

#[tokio::test]
async fn a_rotated_token_is_refused_and_the_new_one_accepted() {
    let stub = CoderStub::start(Pace::Instant).await;
    let old = stub.api();
    let new = Api::new(stub.url(), &stub.token_rotate());
    let statuses = (old.get("/api/v2/users/me").await.status, new.get("/api/v2/users/me").await.status);
    assert_eq!(statuses, (401, 200));
}

#[tokio::test]
async fn a_session_cookie_on_an_api_write_is_a_csrf_error() {
    let stub = CoderStub::start(Pace::Instant).await;
    let write = stub.api().request(Method::POST, "/api/v2/users/me/workspaces").json(&json!({}));
    let reply = read(write.header("Cookie", format!("coder_session_token={}", stub.token()))).await.unwrap();
    assert_eq!((reply.status, reply.body.as_str().map(|text| text.starts_with("CSRF"))), (400, Some(true)));
}

#[tokio::test]
async fn what_others_do_to_workspaces_shows() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 2);
    stub.seed_foreign("alice", "hers");
    stub.rename_outside("agent-1", "renamed");
    stub.delete_outside("agent-2");
    stub.set_build("renamed", "hibernating", "dreaming");
    let row = |name: &str, owner: &str, status: &str, builds: usize| WorkspaceSummary {
        name: name.to_owned(),
        owner: owner.to_owned(),
        status: status.to_owned(),
        builds,
    };
    assert_eq!(
        stub.workspaces(),
        [
            row("renamed", "fleetadmin", "dreaming", 1),
            row("agent-2", "fleetadmin", "deleted", 2),
            row("hers", "alice", "running", 1),
        ]
    );
}
