//! A fleet on a Coder stub, served as `boot` serves it.

use axum::Router;
use chrono::{DateTime, Utc};
use fleet_mcp::app::tokens::CreateToken;
use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::role::RoleKind;
use fleet_mcp::serve::{ConnectionLimits, OpenRequests};
use fleet_mcp::web::{self, Access, Metrics, WebState};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{Api, Pace, Reply, RunningFleet, Scene, eventually, operator, read};

/// What differs from run to run.
pub(super) const FILTERS: [(&str, &str); 6] = [
    ("fleet_[0-9a-f]{64}", "[token]"),
    ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[id]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "[time]"),
    (r"http://127\.0\.0\.1:\d+", "[coder]"),
    (r#""cursor": "\d+""#, r#""cursor": "[revision]""#),
    (r"127\.0\.0\.1:\d+", "[address]"),
];
/// Headers that belong to the contract of a reply.
const TOLD_HEADERS: [&str; 5] = ["allow", "cache-control", "content-type", "retry-after", "www-authenticate"];

pub(crate) struct Server {
    pub(crate) scene: Scene,
    pub(crate) url: String,
    pub(crate) shutdown: CancellationToken,
    api: Api,
    serving: JoinHandle<()>,
    operator_token: String,
}

impl Server {
    /// On a Coder whose builds are over at once.
    pub(crate) async fn start() -> Self {
        Self::start_on(Scene::new(Pace::Instant).await).await
    }

    /// With routes of a test's own beside those of the product, behind the same guard.
    pub(crate) async fn start_with(extra: Router) -> Self {
        Self::start_on_with(Scene::new(Pace::Instant).await, extra).await
    }

    pub(crate) async fn start_on(scene: Scene) -> Self {
        Self::start_on_with(scene, Router::new()).await
    }

    async fn start_on_with(scene: Scene, extra: Router) -> Self {
        let (url, shutdown, serving) = serve(&scene.running, extra).await;
        let operator_token = mint(&scene.running, token_of(RoleKind::Operator)).await;
        let api = Api::new(&url, "");
        Self { scene, url, shutdown, api, serving, operator_token }
    }

    /// A request with the operator's token.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request_as(&self.operator_token, method, path)
    }

    pub(crate) fn request_as(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(token)
    }

    /// A request without any credential.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.api.bare(method, path)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        read(self.request(Method::GET, path)).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        read(self.request(Method::DELETE, path)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        read(self.request(Method::POST, path).json(body)).await.unwrap()
    }

    /// What is answered to a request's bare head, with the operator's token, before the connection is closed.
    pub(crate) async fn raw(&self, head: &str) -> String {
        let mut socket = TcpStream::connect(self.url.trim_start_matches("http://")).await.unwrap();
        let request =
            format!("{head}Authorization: Bearer {}\r\nConnection: close\r\n\r\n", self.operator_token);
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Sends a request's bare head and leaves as soon as it has begun; returns when the server has seen that.
    pub(crate) async fn leave(&self, head: &str, begun: impl Future<Output = ()>) {
        let mut socket = TcpStream::connect(self.url.trim_start_matches("http://")).await.unwrap();
        let request = format!("{head}Authorization: Bearer {}\r\n\r\n", self.operator_token);
        socket.write_all(request.as_bytes()).await.unwrap();
        begun.await;
        socket.shutdown().await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "");
    }

    /// An agent of project `setup` that is ready.
    pub(crate) async fn agent(&self, name: &str) {
        let body = json!({ "project": "setup", "spec": "## Objective\nFix the login bug", "name": name, "wait_seconds": 45 });
        let reply = self.post("/api/v1/agents", &body).await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        self.scene.running.rests(name).await;
    }

    /// Waits until no build holds a slot.
    pub(crate) async fn has_free_slots(&self) {
        eventually("the build's slot is given back", async || {
            self.get("/api/v1/status").await.body["capacity"]["used"] == 0
        })
        .await;
    }

    /// A token of this kind, without an agent.
    pub(crate) async fn token(&self, kind: RoleKind) -> String {
        mint(&self.scene.running, token_of(kind)).await
    }

    pub(crate) async fn token_until(&self, expires_at: DateTime<Utc>) -> String {
        let request = CreateToken { expires_at: Some(expires_at), ..token_of(RoleKind::Operator) };
        mint(&self.scene.running, request).await
    }

    /// A token of this kind that is an agent's own.
    pub(crate) async fn token_of_agent(&self, name: &str, kind: RoleKind) -> String {
        let request = CreateToken { agent: Some(name.to_owned()), ..token_of(kind) };
        mint(&self.scene.running, request).await
    }

    /// Returns when the server has answered all it had to.
    pub(crate) async fn stopped(self) {
        self.serving.await.unwrap();
    }
}

/// The reply as people would write it down.
pub(crate) fn reply_text(reply: &Reply) -> String {
    let headers = TOLD_HEADERS.iter().filter_map(|name| {
        let value = reply.headers.get(*name)?.to_str().ok()?;
        Some(format!("{name}: {value}\n"))
    });
    let body = match &reply.body {
        Value::String(text) => text.clone(),
        body => serde_json::to_string_pretty(body).unwrap(),
    };
    format!("{}\n{}\n{body}", reply.status, headers.collect::<String>())
}

async fn serve(running: &RunningFleet, extra: Router) -> (String, CancellationToken, JoinHandle<()>) {
    let shutdown = running.stop.clone();
    let state = WebState {
        fleet: running.fleet.clone(),
        access: Access {
            allowed_hosts: vec!["fleet.example".to_owned(), "one-port.example:8443".to_owned()],
            allowed_origins: vec!["https://pages.example".to_owned()],
        },
        shutdown: shutdown.clone(),
        tasks: running.tasks.clone(),
        metrics: Metrics::new(),
        open_requests: OpenRequests::default(),
        version: "0.0.0-test",
    };
    let router = web::guard(web::router(state.clone()).merge(extra), &state);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(fleet_mcp::serve::serve(
        listener,
        router,
        ConnectionLimits::of_process(),
        shutdown.clone(),
    ));
    (url, shutdown, serving)
}

async fn mint(running: &RunningFleet, request: CreateToken) -> String {
    running.fleet.token_create(&operator(), request).await.unwrap().reveal()
}

fn token_of(kind: RoleKind) -> CreateToken {
    CreateToken {
        kind: Some(kind),
        name: None,
        role: None,
        agent: None,
        projects: AllowedProjects::All,
        expires_at: None,
    }
}
