//! Who may run squads where: people anywhere, coding agents at home, reviewers and planners nowhere.

use reqwest::Method;
use serde_json::{Value, json};

use super::{SCRIPT, Squads, member};

async fn start_as(squads: &Squads, token: &str, member: Value) -> (u16, Value) {
    let body = json!({ "members": [member] });
    let reply = squads.up.call_as(token, Method::POST, "/api/v1/squads", &body).await;
    (reply.status, reply.body)
}

#[tokio::test]
async fn coding_agents_run_members_at_home_only_and_reviewers_none() {
    let squads = Squads::scripted().await;
    for (name, role) in [("otter", "coder"), ("heron", "reviewer"), ("mole", "planner")] {
        squads.up.agent_with(json!({ "project": "setup", "spec": "true", "name": name, "role": role })).await;
    }
    let [otter, heron, mole] = ["otter", "heron", "mole"].map(|name| squads.up.token_of(name));
    let (status, run) = start_as(&squads, &otter, member("coder", "pwd")).await;
    let home = squads.up.workspace("otter").join("repo").canonicalize().unwrap();
    assert_eq!((status, &run["members"][0]["cwd"]), (201, &json!(home)), "{run}");
    let elsewhere = json!({ "roleId": "coder", "task": "pwd", "agent_name": "heron" });
    for (token, member) in
        [(&otter, elsewhere), (&heron, member("coder", "pwd")), (&mole, member("coder", "pwd"))]
    {
        let (status, body) = start_as(&squads, token, member).await;
        assert_eq!((status, &body["code"]), (403, &json!("FORBIDDEN")), "{body}");
    }
    // What it wrote is the caller's alone, and an operator's.
    let squad = run["squadId"].as_str().unwrap();
    let path = format!("/api/v1/squads?squadId={squad}");
    assert_eq!(squads.up.get_as(&otter, &path).await.status, 200);
    assert_eq!(squads.up.get_as(&heron, &path).await.status, 404);
    assert_eq!(squads.up.get(&path).await["done"], true);
    let denied = squads.up.get("/api/v1/audit?page_size=50").await;
    let rows = denied["entries"].as_array().or(denied["rows"].as_array()).expect("rows").iter();
    let denied =
        rows.filter(|row| row["action"] == "start_squad_members" && row["outcome"] == "denied").count();
    assert_eq!(denied, 3);
}

#[tokio::test]
async fn unknown_chat_does_not_bypass_the_right_to_run_squads() {
    let squads = Squads::with(SCRIPT, &[("STATE_MODE", "stateful")]).await;
    let heron = json!({ "project": "setup", "spec": "true", "name": "heron", "role": "reviewer" });
    squads.up.agent_with(heron).await;
    let reviewer = &squads.up.token_of("heron");
    let unknown = json!({ "roleId": "coder", "task": "true", "chatId": "nope" });
    let (status, body) = start_as(&squads, reviewer, unknown).await;
    assert_eq!((status, &body["code"]), (403, &json!("FORBIDDEN")), "{body}");
    let seen = squads.up.get_as(reviewer, "/api/v1/squads").await.body;
    assert_eq!(seen["squads"], json!([]));
    let newest = squads.up.get("/api/v1/audit").await["entries"][0].clone();
    assert_eq!(
        (&newest["action"], &newest["outcome"]),
        (&json!("start_squad_members"), &json!("denied")),
        "{newest}"
    );
}

#[tokio::test]
async fn where_one_member_may_not_work_nothing_is_made_for_the_others() {
    let squads = Squads::scripted().await;
    squads.up.agent_with(json!({ "project": "setup", "spec": "true", "name": "otter" })).await;
    let create = ["token", "create", "--kind", "manager", "--project", "here", "--json"];
    let manager = squads.up.program.json(&create).await;
    let elsewhere = json!({ "roleId": "coder", "task": "true", "agent_name": "otter" });
    let body = json!({ "members": [member("coder", "true"), elsewhere], "async": true });
    let token = manager["token"].as_str().unwrap();
    let reply = squads.up.call_as(token, Method::POST, "/api/v1/squads", &body).await;
    assert_eq!((reply.status, &reply.body["code"]), (403, &json!("FORBIDDEN")), "{}", reply.body);
    let agents = squads.up.get("/api/v1/agents?include_runs=true").await;
    let names: Vec<&Value> =
        agents["agents"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, ["otter"]);
}

async fn twin(squads: &Squads) -> (String, String) {
    let made = squads.up.post("/api/v1/tokens", &json!({ "kind": "manager", "name": "twin" })).await;
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

#[tokio::test]
async fn two_tokens_of_one_name_see_nothing_of_each_others_squads() {
    let squads = Squads::with(SCRIPT, &[("STATE_MODE", "stateful")]).await;
    let ((_, one), (_, other)) = (twin(&squads).await, twin(&squads).await);
    let body = json!({ "members": [member("coder", "echo mine")], "request_key": "k" });
    let run = squads.up.call_as(&one, Method::POST, "/api/v1/squads", &body).await.body;
    let (squad, chat) = (run["squadId"].as_str().unwrap(), &run["members"][0]["chatId"]);
    let path = format!("/api/v1/squads?squadId={squad}");
    let [own, foreign] = [&one, &other].map(|token| squads.up.get_as(token, &path));
    assert_eq!((own.await.status, foreign.await.status), (200, 404));
    assert_eq!(squads.up.get_as(&other, "/api/v1/squads").await.body["squads"], json!([]));
    let asked = squads.up.tool_as(&other, "squad_status", &json!({ "squadId": squad })).await;
    let told: Value = serde_json::from_str(asked["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(told["code"], "NOT_FOUND");
    // Neither the conversation nor the request key is the other's.
    let follow_up = json!({ "roleId": "coder", "task": "true", "chatId": chat });
    let (_, refused) = start_as(&squads, &other, follow_up).await;
    let reason = format!("chat '{}' not found; omit chatId to start a new one", chat.as_str().unwrap());
    assert_eq!(refused["members"][0]["rawStderr"], reason);
    let again = squads.up.call_as(&other, Method::POST, "/api/v1/squads", &body).await;
    assert_eq!(again.status, 201, "{}", again.body);
    assert_ne!(again.body["squadId"], squad);
    let repeated = squads.up.call_as(&one, Method::POST, "/api/v1/squads", &body).await.body;
    assert_eq!(repeated["squadId"], squad);
    assert_eq!(squads.up.get(&path).await["done"], true, "operators see all");
}

#[tokio::test]
async fn an_agent_that_was_started_anew_sees_the_squads_of_its_earlier_token() {
    let squads = Squads::scripted().await;
    squads.up.agent_with(json!({ "project": "setup", "spec": "true", "name": "otter" })).await;
    let before = squads.up.token_of("otter");
    let (_, run) = start_as(&squads, &before, member("coder", "true")).await;
    squads.up.change("otter", "restart").await;
    squads.up.provisioned("otter").await;
    let after = squads.up.token_of("otter");
    assert_ne!(before, after);
    let path = format!("/api/v1/squads?squadId={}", run["squadId"].as_str().unwrap());
    assert_eq!(squads.up.get_as(&after, &path).await.status, 200);
}

#[tokio::test]
async fn a_caller_whose_token_is_revoked_is_told_at_once_and_its_squad_goes_on() {
    let squads = Squads::scripted().await;
    let (id, token) = twin(&squads).await;
    let sign = squads.sign("begun");
    let task = format!("touch {}; while test -e {}; do sleep 0.1; done", sign.display(), sign.display());
    let body = json!({ "members": [member("coder", &task)] });
    let call = squads.up.call_as(&token, Method::POST, "/api/v1/squads", &body);
    let revoke = async {
        crate::harness::eventually("the member works", async || sign.exists()).await;
        let path = format!("/api/v1/tokens/{id}");
        squads.up.call_as(&squads.up.operator_token(), Method::DELETE, &path, &Value::Null).await
    };
    let (reply, revoked) = tokio::join!(call, revoke);
    assert_eq!((revoked.status, reply.status, &reply.body["code"]), (200, 401, &json!("UNAUTHENTICATED")));
    std::fs::remove_file(&sign).unwrap();
    let seen = squads.up.get("/api/v1/audit?page_size=50").await;
    assert!(seen["entries"].as_array().unwrap().iter().any(|row| row["action"] == "start_squad_members"));
}
