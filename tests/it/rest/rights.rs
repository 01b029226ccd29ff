//! Role by route: what `authorize` decides is what a token can do over HTTP, and each refusal leaves its row.

use std::collections::BTreeSet;

use fleet_mcp::app::snapshot::AgentState;
use fleet_mcp::domain::access::{Action, AgentTarget, Target, authorize};
use fleet_mcp::domain::role::RoleKind;
use reqwest::Method;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::Server;
use crate::harness::{Reply, read};

/// What a route acts on.
#[derive(Clone, Copy)]
enum About {
    Fleet,
    NewAgent,
    /// The agent named in the path.
    Agent,
    /// The calling agent, for any name in the call.
    Itself,
    /// The workspace of the calling agent, or that of the project for runs.
    Home,
}

struct Route {
    action: Action,
    about: About,
    method: Method,
    path: &'static str,
    body: Value,
}

fn route(action: Action, about: About, (method, path): (Method, &'static str), body: Value) -> Route {
    Route { action, about, method, path, body }
}

fn get(action: Action, about: About, path: &'static str) -> Route {
    route(action, about, (Method::GET, path), Value::Null)
}

/// Every action over every route of it; what ends an agent or the server comes last.
fn routes() -> Vec<Route> {
    let post = |path| (Method::POST, path);
    let metadata = json!({ "key": "fleet_mcp_note", "value": "x" });
    let wait = json!({ "until": "idle", "timeout_seconds": 1 });
    let task = json!({ "task_description": "x", "when_busy": "queue" });
    let squad = json!({ "members": [{ "roleId": "coder", "task": "x" }], "async": true });
    let report = json!({ "state": "working", "summary": "x" });
    vec![
        get(Action::AgentList, About::Fleet, "/agents"),
        get(Action::AgentShow, About::Agent, "/agents/{name}"),
        get(Action::AgentHistory, About::Fleet, "/agents/{name}/history"),
        get(Action::AgentLog, About::Agent, "/agents/{name}/log"),
        get(Action::RoleList, About::Fleet, "/roles"),
        get(Action::ProjectList, About::Fleet, "/projects"),
        get(Action::FleetStatus, About::Fleet, "/status"),
        get(Action::SquadRoleList, About::Fleet, "/squads/roles"),
        get(Action::SquadStatus, About::Fleet, "/squads"),
        get(Action::RescueList, About::Fleet, "/rescues"),
        get(Action::RescueFetch, About::Fleet, "/rescues/7"),
        get(Action::RescueFetch, About::Fleet, "/rescues/7/bundle"),
        get(Action::OperationList, About::Fleet, "/operations"),
        route(Action::OperationCancel, About::Fleet, post("/operations/7/cancel"), json!({})),
        get(Action::TokenManage, About::Fleet, "/tokens"),
        get(Action::AuditRead, About::Fleet, "/audit"),
        get(Action::Doctor, About::Fleet, "/doctor"),
        route(Action::AgentWait, About::Fleet, post("/wait"), wait),
        route(Action::TokenManage, About::Fleet, post("/tokens"), json!({ "kind": "manager" })),
        route(Action::TokenManage, About::Fleet, (Method::DELETE, "/tokens/7"), Value::Null),
        route(Action::AgentMetadataSet, About::Agent, post("/agents/{name}/metadata"), metadata),
        route(Action::TaskStart, About::Agent, post("/agents/{name}/tasks"), task),
        route(Action::TaskCancel, About::Agent, (Method::DELETE, "/agents/{name}/tasks"), Value::Null),
        route(Action::StatusReport, About::Itself, post("/report"), report),
        route(Action::SquadRun, About::Home, post("/squads"), squad),
        route(
            Action::AgentCreate,
            About::NewAgent,
            post("/agents"),
            json!({ "project": "setup", "spec": "x" }),
        ),
        route(Action::AgentStart, About::Agent, post("/agents/{name}/start"), json!({})),
        route(Action::AgentStop, About::Agent, post("/agents/{name}/stop"), json!({})),
        route(Action::AgentRestart, About::Agent, post("/agents/{name}/restart"), json!({})),
        route(Action::AgentDelete, About::Agent, (Method::DELETE, "/agents/{name}"), Value::Null),
        route(Action::ServerStop, About::Fleet, post("/shutdown"), json!({})),
    ]
}

/// Routes that ask for no action: they tell the same to everyone with a token.
const ALIKE: [&str; 2] = ["GET /api/v1/events", "GET /api/v1/openapi.json"];

#[test]
fn no_action_and_no_route_is_left_out() {
    let walked: BTreeSet<Action> = routes().iter().map(|route| route.action).collect();
    assert_eq!(walked, Action::ALL.iter().copied().collect());

    let walked = routes().into_iter().map(|route| {
        let path = route.path.replace("/operations/7", "/operations/{operation_id}").replace("/7", "/{id}");
        format!("{} /api/v1{path}", route.method)
    });
    let walked: BTreeSet<String> = walked.chain(ALIKE.map(str::to_owned)).collect();
    let document = json!(fleet_mcp::web::openapi());
    let served = document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    let served: BTreeSet<String> = served.filter(|route| route.contains(" /api/v1/")).collect();
    assert_eq!(walked, served);
}

#[tokio::test]
async fn a_manager_may_over_http_what_the_one_decision_says() {
    let server = Server::start().await;
    let token = server.token(RoleKind::Manager).await;
    for name in ["otter", "absent"] {
        server_follows_the_decision(&server, &token, name).await;
    }
}

#[tokio::test]
async fn an_agent_of_any_kind_may_over_http_what_the_one_decision_says() {
    for kind in RoleKind::ALL {
        let server = Server::start().await;
        server.agent("otter").await;
        let token = server.token_of_agent("otter", *kind).await;
        let child = child_of(&server, &token).await;
        for name in ["otter", "heron", "absent"].into_iter().chain(child.as_deref()) {
            server_follows_the_decision(&server, &token, name).await;
        }
    }
}

/// An agent that the caller made itself, if it may.
async fn child_of(server: &Server, token: &str) -> Option<String> {
    let body = json!({ "project": "setup", "spec": "x", "name": "child", "wait_seconds": 45 });
    let request = server.request_as(token, Method::POST, "/api/v1/agents").json(&body);
    let made = read(request).await.unwrap();
    (made.status == 201).then(|| "child".to_owned())
}

/// Walks all routes with one token and one name; an agent with this name is created unless it is `absent`.
async fn server_follows_the_decision(server: &Server, token: &str, name: &str) {
    if name != "absent" && server.scene.running.status(name).is_none() {
        server.agent(name).await;
    }
    for route in routes() {
        let may = may(server, token, name, &route).await;
        let before = server.get("/api/v1/audit").await.body["total_count"].as_i64().unwrap();
        let reply = call(server, token, name, &route).await;
        let told = format!("{} {} on {name}: {}", route.method, route.path, reply.body);
        assert_eq!(reply.status != 403, may, "{told}");
        if !may {
            assert_refusal_is_recorded(server, before, &route).await;
        }
    }
}

async fn may(server: &Server, token: &str, name: &str, route: &Route) -> bool {
    let fleet = &server.scene.running.fleet;
    let principal = fleet.token_principal(&SecretString::from(token)).await.unwrap().unwrap();
    let snapshot = fleet.board().now();
    let own = principal.agent.and_then(|id| snapshot.by_id(id));
    let target = match (route.about, snapshot.by_name(name)) {
        (About::Itself, _) => own.map_or(Target::Fleet, |state| Target::Agent(target_of(state))),
        (About::Fleet, _) => Target::Fleet,
        (About::Home, _) if own.is_some() => {
            own.map_or(Target::Fleet, |state| Target::Agent(target_of(state)))
        }
        (About::NewAgent | About::Home, _) => Target::NewAgent { project: "setup", kind: RoleKind::Coding },
        (About::Agent, Some(state)) => Target::Agent(target_of(state)),
        (About::Agent, None) => Target::Absent,
    };
    authorize(&principal, route.action, target).is_ok()
}

fn target_of(state: &AgentState) -> AgentTarget<'_> {
    AgentTarget {
        id: state.agent.id,
        project: &state.agent.project,
        kind: state.kind,
        created_by: state.agent.created_by.as_deref(),
    }
}

async fn call(server: &Server, token: &str, name: &str, route: &Route) -> Reply {
    let path = format!("/api/v1{}", route.path.replace("{name}", name));
    let request = server.request_as(token, route.method.clone(), &path);
    let request = if route.body.is_null() { request } else { request.json(&route.body) };
    read(request).await.unwrap()
}

async fn assert_refusal_is_recorded(server: &Server, before: i64, route: &Route) {
    let trail = server.get("/api/v1/audit").await.body;
    let newest = &trail["entries"][0];
    let row = (&newest["action"], &newest["outcome"], &newest["code"], &newest["surface"]);
    let expected = (json!(route.action.name()), json!("denied"), json!("FORBIDDEN"), json!("rest"));
    assert_eq!(row, (&expected.0, &expected.1, &expected.2, &expected.3));
    assert_eq!(trail["total_count"], before + 1);
}
