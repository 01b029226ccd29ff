//! Every route once, as it answers when all is well.

use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::role::RoleKind;
use reqwest::Method;
use serde_json::json;

use super::{Server, assert_reply};
use crate::harness::{AgentScript, Capture, Pace, Scene, eventually, read, stub};

#[tokio::test]
async fn agents_are_listed_with_the_counts_of_the_fleet() {
    let server = Server::start().await;
    server.agent("otter").await;
    assert_reply!("list_agents", server.get("/api/v1/agents?status_filter=idle&page_size=10").await);
}

#[tokio::test]
async fn a_created_agent_is_answered_when_it_is_ready() {
    let server = Server::start().await;
    server.scene.coder.set_script_of_new_agents(AgentScript::Work);
    let body = json!({
        "project": "setup",
        "spec": "## Objective\nFix the login bug",
        "name": "otter",
        "role": "reviewer",
        "pull_request_url": "https://forge.example/pulls/7",
        "wait_seconds": 40,
    });
    assert_reply!("create_agent", server.post("/api/v1/agents", &body).await);
}

#[tokio::test]
async fn one_agent_is_shown_whole_for_its_name_in_any_case() {
    let server = Server::start().await;
    server.agent("otter").await;
    assert_reply!("show_agent", server.get("/api/v1/agents/OTTER").await);
}

#[tokio::test]
async fn a_deleted_agent_is_gone_when_the_answer_was_waited_for() {
    let server = Server::start().await;
    server.agent("otter").await;
    let reply = server.delete("/api/v1/agents/otter?keep_work=false&wait_seconds=40").await;
    assert_reply!("delete_agent", reply);
}

#[tokio::test]
async fn an_agent_is_stopped_started_and_restarted() {
    let server = Server::start().await;
    server.agent("otter").await;
    let wait = json!({ "wait_seconds": 40 });
    assert_reply!("stop_agent", server.post("/api/v1/agents/otter/stop", &wait).await);
    assert_reply!("start_agent", server.post("/api/v1/agents/otter/start", &wait).await);
    assert_reply!("restart_agent", server.post("/api/v1/agents/otter/restart", &wait).await);
}

#[tokio::test]
async fn a_change_needs_no_body() {
    let server = Server::start().await;
    server.agent("otter").await;
    let reply = read(server.request(Method::POST, "/api/v1/agents/otter/start")).await.unwrap();
    assert_reply!("start_agent_already_running", reply);
}

#[tokio::test]
async fn the_history_tells_tasks_and_reports_newest_first() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.scene.coder.post_app_status("otter", "working", "reading the code");
    server.scene.running.becomes("otter", AgentStatus::Busy).await;
    assert_reply!("history", server.get("/api/v1/agents/otter/history?kind=report").await);
}

#[tokio::test]
async fn a_task_is_given_canceled_and_in_the_log() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.scene.coder.set_agent_script("otter", AgentScript::Work);
    let body = json!({ "task_description": "Add a test", "timeout_seconds": 600 });
    assert_reply!("start_agent_task", server.post("/api/v1/agents/otter/tasks", &body).await);
    server.scene.running.works("otter").await;
    assert_reply!("start_agent_task_busy", server.post("/api/v1/agents/otter/tasks", &body).await);
    assert_reply!("cancel_agent_task", server.delete("/api/v1/agents/otter/tasks?all=true").await);
    assert_reply!("cancel_agent_task_none", server.delete("/api/v1/agents/otter/tasks").await);
    assert_reply!("show_agent_log", server.get("/api/v1/agents/otter/log?page_size=2").await);
    server.delete("/api/v1/agents/otter?wait_seconds=40").await;
    assert_reply!("show_agent_log_deleted", server.get("/api/v1/agents/otter/log").await);
}

#[tokio::test]
async fn the_same_key_is_the_same_task() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.scene.coder.set_agent_script("otter", AgentScript::Work);
    let post = |text: &str| {
        let request =
            server.request(Method::POST, "/api/v1/agents/otter/tasks").header("Idempotency-Key", "k");
        read(request.json(&json!({ "task_description": text })))
    };
    let first = post("Add a test").await.unwrap();
    server.scene.running.works("otter").await;
    let second = post("Add a test").await.unwrap();
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.body["task"]["id"], second.body["task"]["id"]);
    let other = post("Add another").await.unwrap();
    assert_eq!((other.status, &other.body["code"]), (409, &json!("KEY_REUSED")));
}

#[tokio::test]
async fn an_agent_reports_about_itself() {
    let server = Server::start().await;
    server.agent("otter").await;
    let token = server.token_of_agent("otter", RoleKind::Coding).await;
    let body = json!({ "state": "working", "summary": "reading the code" });
    let request = server.request_as(&token, Method::POST, "/api/v1/report").json(&body);
    assert_reply!("report_status", read(request).await.unwrap());
}

#[tokio::test]
async fn metadata_that_was_set_is_answered_with_all_there_is() {
    let server = Server::start().await;
    server.agent("otter").await;
    let body = json!({ "key": "fleet_mcp_note", "value": "waits for QA" });
    assert_reply!("set_agent_metadata", server.post("/api/v1/agents/otter/metadata", &body).await);
}

#[tokio::test]
async fn a_wait_for_agents_that_rest_ends_at_once() {
    let server = Server::start().await;
    server.agent("otter").await;
    let body = json!({ "agent_names": ["otter"], "until": "idle", "cursor": "0" });
    assert_reply!("wait_for_agents", server.post("/api/v1/wait", &body).await);
}

#[tokio::test]
async fn a_wait_does_not_hold_up_a_server_that_stops() {
    let capture = Capture::start();
    let server = Server::start().await;
    let body = json!({ "timeout_seconds": 45, "cursor": "0" });
    let waiting = tokio::spawn(read(server.request(Method::POST, "/api/v1/wait").json(&body)));
    let begun = r#"http.route="/api/v1/wait""#;
    eventually("the wait has begun", async || capture.text().contains(begun)).await;
    server.shutdown.cancel();
    let reply = waiting.await.unwrap().unwrap();
    assert_eq!((reply.status, reply.body), (200, json!({ "changed": [], "cursor": "0", "timed_out": true })));
    server.stopped().await;
}

#[tokio::test]
async fn roles_and_projects_are_listed() {
    let server = Server::start().await;
    assert_reply!("list_agent_roles", server.get("/api/v1/roles?project=Setup").await);
    assert_reply!("list_agent_projects", server.get("/api/v1/projects").await);
}

#[tokio::test]
async fn the_fleet_is_seen_in_one_look() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.has_free_slots().await;
    assert_reply!("fleet_status", server.get("/api/v1/status").await);
}

#[tokio::test]
async fn operations_are_listed_and_canceled() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.scene.coder.set_pace(Pace::Held);
    server.post("/api/v1/agents/otter/restart", &json!({})).await;
    eventually("Coder has the restart", async || {
        let listed = server.get("/api/v1/operations").await.body;
        listed["operations"][0]["step"] == "following"
    })
    .await;
    let stop = server.post("/api/v1/agents/otter/stop", &json!({})).await.body;
    let path = format!("/api/v1/operations/{}/cancel", stop["operation_id"].as_str().unwrap());
    assert_reply!("cancel_operation", server.post(&path, &json!({ "wait_seconds": 45 })).await);
    let again = server.post(&path, &json!({})).await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("NO_TASK")));
    let listed = server.get("/api/v1/operations?agent_filter=Otter&include_ended=true&page_size=1").await;
    assert_reply!("list_operations", listed);
    let newest = server.get("/api/v1/audit").await.body["entries"][1].clone();
    let row = (&newest["action"], &newest["outcome"], &newest["operation_id"]);
    assert_eq!(row, (&json!("cancel_operation"), &json!("allowed"), &stop["operation_id"]));
}

#[tokio::test]
async fn a_token_is_made_listed_and_revoked() {
    let server = Server::start().await;
    let body = json!({ "kind": "manager", "name": "night shift", "projects": ["setup"] });
    let made = server.post("/api/v1/tokens", &body).await;
    assert_reply!("create_token", made);
    assert_reply!("list_tokens", server.get("/api/v1/tokens").await);
    let id = made.body["id"].as_str().unwrap();
    assert_reply!("revoke_token", server.delete(&format!("/api/v1/tokens/{id}")).await);
    let text = made.body["token"].as_str().unwrap();
    let refused = read(server.request_as(text, Method::GET, "/api/v1/agents")).await.unwrap();
    assert_eq!(refused.status, 401);
}

#[tokio::test]
async fn the_audit_trail_tells_newest_first_who_did_what() {
    let server = Server::start().await;
    server.agent("otter").await;
    assert_reply!("list_audit", server.get("/api/v1/audit?page=1&page_size=2").await);
}

#[tokio::test]
async fn the_doctor_finds_a_fresh_server_well() {
    let server = Server::start().await;
    assert_reply!("doctor", server.get("/api/v1/doctor").await);
}

#[tokio::test]
async fn an_operator_stops_the_server() {
    let server = Server::start().await;
    let reply = read(server.request(Method::POST, "/api/v1/shutdown")).await.unwrap();
    assert_reply!("shut_down", reply);
    server.stopped().await;
}

#[tokio::test]
async fn the_served_document_is_the_one_in_the_repository() {
    let server = Server::start().await;
    let served = server.get("/api/v1/openapi.json").await.body;
    assert_eq!(served, json!(fleet_mcp::web::openapi()));
}

#[tokio::test]
async fn health_and_readiness_need_no_token() {
    let server = Server::start().await;
    for path in ["/healthz", "/readyz"] {
        let reply = read(server.bare(Method::GET, path)).await.unwrap();
        assert_eq!((reply.status, reply.body), (200, json!("ok")), "{path}");
    }
}

#[tokio::test]
async fn a_server_without_coder_is_alive_and_not_ready() {
    let scene = Scene {
        running: crate::harness::RunningFleet::start("http://127.0.0.1:9", "x").await,
        coder: stub(Pace::Instant).await,
    };
    let server = Server::start_on(scene).await;
    let alive = read(server.bare(Method::GET, "/healthz")).await.unwrap();
    let ready = read(server.bare(Method::GET, "/readyz")).await.unwrap();
    assert_eq!((alive.status, alive.body, ready.status, ready.body), (200, json!("ok"), 503, json!("coder")));
}

#[tokio::test]
async fn a_server_whose_store_is_gone_says_so() {
    let server = Server::start().await;
    server.scene.running.store.close().await;
    let ready = read(server.bare(Method::GET, "/readyz")).await.unwrap();
    assert_eq!((ready.status, ready.body), (503, json!("store")));
}

#[tokio::test]
async fn metrics_count_agents_slots_and_requests() {
    let server = Server::start().await;
    server.agent("otter").await;
    read(server.request_as(&server.token(RoleKind::Coding).await, Method::GET, "/api/v1/tokens"))
        .await
        .unwrap();
    server.get("/api/v1/agents/otter").await;
    server.get("/no/such/route").await;
    server.has_free_slots().await;
    let text = server.get("/metrics").await.body.as_str().unwrap().to_owned();
    // How long requests took, and how often the status was asked for, differs from run to run.
    let is_stable = |line: &&str| !line.contains("duration_seconds") && !line.contains("/status");
    let mut lines: Vec<&str> = text.lines().filter(is_stable).filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    insta::assert_snapshot!("metrics", lines.join("\n"));
    assert!(text.contains("fleet_http_request_duration_seconds_bucket"), "{text}");
}
