//! An agent for a pull request: it is told of it, and starts from its head where its own remote offers that.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

const NAME: &str = "otter";

/// A web server with bare repositories, as forges serve them; it remembers what was asked for.
#[derive(Clone)]
struct Forge {
    folder: PathBuf,
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    /// It takes requests and answers none.
    is_silent: Arc<AtomicBool>,
}

impl Forge {
    async fn start(folder: &Path) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let forge = Self { folder: folder.to_owned(), url, asked: Arc::default(), is_silent: Arc::default() };
        let router = Router::new().fallback(answer).with_state(forge.clone());
        tokio::spawn(async { axum::serve(listener, router).await });
        forge
    }

    /// A bare copy of the repository with pull request 7, whose head is returned.
    fn publish(&self, program: &Program, source: &Path, head: &str) -> String {
        let target = self.folder.join("owner/app.git");
        program.git(source, &["clone", "--quiet", "--bare", ".", target.to_str().unwrap()]);
        let tree = program.git(&target, &["rev-parse", "HEAD^{tree}"]);
        let commit = program.git(&target, &["commit-tree", "-p", "HEAD", "-m", "proposed", &tree]);
        program.git(&target, &["update-ref", head, &commit]);
        program.git(&target, &["update-server-info"]);
        commit
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(State(forge): State<Forge>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    forge.asked.lock().unwrap().push(path.clone());
    if forge.is_silent.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    match std::fs::read(forge.folder.join(path)) {
        Ok(content) => content.into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A server in a repository whose remote is on a forge.
struct Scene {
    up: Up,
    forge: Forge,
    base: String,
    proposed: String,
}

impl Scene {
    async fn new(head: &str) -> Self {
        let program = Program::without_coder();
        let (host, folder) = (program.repository(), program.directory.path().join("forge"));
        std::fs::create_dir_all(&folder).unwrap();
        let forge = Forge::start(&folder).await;
        let proposed = forge.publish(&program, &host, head);
        program.git(&host, &["remote", "add", "upstream", &format!("{}/owner/app.git", forge.url)]);
        let base = program.git(&host, &["rev-parse", "HEAD"]);
        let up = Up::start(&program.within(&host)).await;
        Self { up, forge, base, proposed }
    }

    fn creation(&self, project: &str, path: &str) -> Value {
        let url = format!("{}/{path}", self.forge.url);
        json!({
            "project": project, "spec": "say hello", "name": NAME, "pull_request_url": url, "wait_seconds": 45
        })
    }

    fn head(&self) -> String {
        let repo = self.up.workspace(NAME).join("repo");
        self.up.program.git(&repo, &["rev-parse", "HEAD"])
    }

    /// The first thing that the agent was told.
    async fn first_message(&self) -> Value {
        let mut task = json!(null);
        eventually("the first task is shown", async || {
            let history = self.up.get(&format!("/api/v1/agents/{NAME}/history?kind=task")).await;
            task = history["tasks"][0]["message"].clone();
            task.is_string()
        })
        .await;
        task
    }

    fn starts_from_head(&self) -> String {
        format!("the agent starts from the head {} of pull request 7", &self.proposed[..12])
    }
}

fn starts_from_base(reason: &str) -> String {
    format!("the agent starts from the base, not from the pull request: {reason}")
}

#[tokio::test]
async fn the_branch_starts_from_the_head_that_the_repositorys_own_remote_offers() {
    for (head, path) in [
        ("refs/pull/7/head", "owner/app/pulls/7"),
        ("refs/merge-requests/7/head", "owner/app/-/merge_requests/7"),
    ] {
        let scene = Scene::new(head).await;
        let request = scene.creation("here", path);
        let made = scene.up.post("/api/v1/agents", &request).await;
        assert_eq!(scene.head(), scene.proposed, "{path}");
        let message = format!("agent '{NAME}' is ready; {}", scene.starts_from_head());
        assert_eq!(made["message"], json!(message));
        let url = request["pull_request_url"].as_str().unwrap();
        let told = format!("say hello\n\nThe pull request to work on: {url}");
        assert_eq!(scene.first_message().await, json!(told));
        let host = scene.up.program.repository();
        let format = "--format=%(refname) %(objectname)";
        let refs = scene.up.program.git(&host, &["for-each-ref", format, "refs/heads/fleet", "refs/fleet"]);
        let commit = &scene.proposed;
        let expected = format!(
            "refs/fleet/agents/{NAME} {commit}\nrefs/fleet/published/{NAME} {commit}\nrefs/heads/fleet/{NAME} {commit}"
        );
        assert_eq!(refs, expected);
    }
}

#[tokio::test]
async fn the_agent_itself_is_told_of_the_pull_request_by_the_tool_and_the_command_line() {
    let scene = Scene::new("refs/pull/7/head").await;
    let request = scene.creation("here", "owner/app/pull/7");
    let url = request["pull_request_url"].as_str().unwrap();
    let made = scene.up.tool_as(&scene.up.operator_token(), "create_agent", &request).await;
    let message = format!("agent '{NAME}' is ready; {}", scene.starts_from_head());
    assert_eq!(made["structuredContent"]["message"], json!(message));
    eventually("the runner has taken it", async || {
        let journal = scene.up.agent_file(NAME, "journal.jsonl").unwrap_or_default();
        journal.contains(&format!("The pull request to work on: {url}"))
    })
    .await;
    scene.up.delete(NAME, "").await;
    let create = [
        "agents",
        "create",
        "--project",
        "here",
        "--name",
        NAME,
        "--spec",
        "say hello",
        "--pull-request-url",
        url,
        "--wait",
        "45",
    ];
    let told = scene.up.program.run(&create).await;
    let stderr = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(stderr.contains(&format!("note: {}", scene.starts_from_head())), "{stderr}");
}

#[tokio::test]
async fn a_cloned_project_starts_on_a_branch_at_the_head_too() {
    let scene = Scene::new("refs/pull/7/head").await;
    let projects = scene.up.program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    let repo = format!("{}/owner/app.git", scene.forge.url);
    let file = format!("name = \"cloned\"\ntemplate = \"cloned\"\nrepo = \"{repo}\"\n");
    std::fs::write(projects.join("cloned.toml"), file).unwrap();
    let request = scene.creation("cloned", "owner/app/pulls/7");
    let mut made = json!(null);
    eventually("the project is known", async || {
        let token = scene.up.operator_token();
        let reply = scene.up.call_as(&token, reqwest::Method::POST, "/api/v1/agents", &request).await;
        made = reply.body;
        reply.status < 300
    })
    .await;
    assert_eq!(made["message"], json!(format!("agent '{NAME}' is ready; {}", scene.starts_from_head())));
    assert_eq!(scene.head(), scene.proposed);
    let repo = scene.up.workspace(NAME).join("repo");
    assert_eq!(scene.up.program.git(&repo, &["branch", "--show-current"]), format!("fleet/{NAME}"));
}

#[tokio::test]
async fn head_that_the_remote_does_not_offer_is_named_and_the_agent_starts_from_the_base() {
    let scene = Scene::new("refs/pull/7/head").await;
    let made = scene.up.post("/api/v1/agents", &scene.creation("here", "owner/app/pulls/8")).await;
    let note = starts_from_base("remote 'upstream' does not offer refs/pull/8/head");
    assert_eq!(made["message"], json!(format!("agent '{NAME}' is ready; {note}")));
    assert_eq!(scene.head(), scene.base);
}

#[tokio::test]
async fn of_a_project_without_a_repository_it_is_said_that_the_agent_does_not_start_from_the_head() {
    let up = Up::start_here(&Program::without_coder()).await;
    let url = "https://example.test/owner/app/pull/7";
    let request = json!({
        "project": "setup", "spec": "say hello", "name": NAME, "pull_request_url": url, "wait_seconds": 45
    });
    let made = up.post("/api/v1/agents", &request).await;
    let note = starts_from_base("it belongs to no remote of the repository");
    assert_eq!(made["message"], json!(format!("agent '{NAME}' is ready; {note}")));
}

#[tokio::test]
async fn nothing_is_fetched_from_an_address_that_a_caller_names() {
    let scene = Scene::new("refs/pull/7/head").await;
    let other = scene.up.program.directory.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let foreign = Forge::start(&other).await;
    foreign.publish(&scene.up.program, &scene.up.program.repository(), "refs/pull/7/head");
    let mut request = scene.creation("here", "");
    request["pull_request_url"] = json!(format!("{}/owner/app/pulls/7", foreign.url));
    let made = scene.up.post("/api/v1/agents", &request).await;
    let note = starts_from_base("it belongs to no remote of the repository");
    assert_eq!(made["message"], json!(format!("agent '{NAME}' is ready; {note}")));
    assert_eq!((scene.head(), foreign.asked()), (scene.base.clone(), Vec::new()));
    assert_eq!(scene.forge.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn an_address_with_a_password_is_refused_and_not_repeated() {
    let up = Up::start_here(&Program::without_coder()).await;
    let url = "https://me:secret@example.com/owner/app/pull/7";
    let request = json!({ "project": "here", "spec": "say hello", "pull_request_url": url });
    let token = up.operator_token();
    let reply = up.call_as(&token, reqwest::Method::POST, "/api/v1/agents", &request).await;
    assert_eq!((reply.status, &reply.body["code"]), (400, &json!("INVALID_INPUT")), "{}", reply.body);
    let tool = up.tool_as(&token, "create_agent", &request).await.to_string();
    let line = up
        .program
        .run(&["agents", "create", "--project", "here", "--spec", "x", "--pull-request-url", url])
        .await;
    let line = String::from_utf8_lossy(&line.stderr).into_owned();
    for told in [reply.body.to_string(), tool, line] {
        assert!(told.contains("contains a user name or a password") && !told.contains("secret"), "{told}");
    }
}

/// What holds a pull request that was fetched and is on no branch yet.
const HELD: &str = "refs/fleet/pulls/otter";

impl Scene {
    fn fleet_refs(&self) -> String {
        let host = self.up.program.repository();
        self.up.program.git(&host, &["for-each-ref", "--format=%(refname)", "refs/fleet", "refs/heads/fleet"])
    }

    /// As a create leaves it that ends between the fetch and the branch.
    fn hold(&self) {
        self.up.program.git(&self.up.program.repository(), &["update-ref", HELD, "HEAD"]);
    }
}

#[tokio::test]
async fn a_create_that_is_canceled_before_its_branch_begins_leaves_no_ref() {
    let scene = Scene::new("refs/pull/7/head").await;
    scene.hold();
    scene.forge.is_silent.store(true, Ordering::SeqCst);
    let mut request = scene.creation("here", "owner/app/pulls/7");
    request["wait_seconds"] = json!(0);
    scene.up.post("/api/v1/agents", &request).await;
    eventually("the forge is asked", async || !scene.forge.asked().is_empty()).await;
    scene.up.delete(NAME, "").await;
    assert_eq!(scene.fleet_refs(), "");
}

#[tokio::test]
async fn a_ref_that_an_earlier_server_left_goes_with_the_agent() {
    let scene = Scene::new("refs/pull/7/head").await;
    scene.up.post("/api/v1/agents", &scene.creation("here", "owner/app/pulls/7")).await;
    scene.hold();
    scene.up.delete(NAME, "").await;
    assert_eq!(scene.fleet_refs(), format!("refs/heads/fleet/{NAME}"));
}
