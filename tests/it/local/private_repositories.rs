//! Repositories whose address carries a token: git signs in with it, and no message or process shows it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use fleet_mcp::coder::exec::{Command, Exit};
use http::{StatusCode, header};

use super::here::{git, repository};
use crate::harness::{LocalSite, is_over, is_ready, project};

const TOKEN: &str = "ghp_secret";
/// The token as a name, with an empty password.
const SIGNED_IN: &str = "Basic Z2hwX3NlY3JldDo=";

/// A web server with a repository that requires a login; it records the callers.
#[derive(Clone)]
struct Forge {
    folder: PathBuf,
    address: String,
    /// Command lines of processes that name this server.
    callers: Arc<Mutex<Vec<String>>>,
}

impl Forge {
    async fn start(folder: &Path) -> Self {
        let source = repository();
        let target = folder.join("private.git");
        git(source.path(), &["clone", "--quiet", "--bare", ".", target.to_str().unwrap()]);
        git(&target, &["update-server-info"]);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let forge = Self { folder: folder.to_owned(), address, callers: Arc::default() };
        let router = Router::new().fallback(answer).with_state(forge.clone());
        tokio::spawn(async { axum::serve(listener, router).await });
        forge
    }

    fn url(&self, login: &str, repository: &str) -> String {
        format!("http://{login}{}/{repository}", self.address)
    }

    fn look_at_callers(&self) {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        self.callers.lock().unwrap().extend(lines.filter(|line| line.contains(&self.address)));
    }
}

async fn answer(State(forge): State<Forge>, request: Request) -> Response {
    forge.look_at_callers();
    if request.headers().get(header::AUTHORIZATION).is_none_or(|given| given != SIGNED_IN) {
        let who = [(header::WWW_AUTHENTICATE, "Basic realm=\"forge\"")];
        return (StatusCode::UNAUTHORIZED, who).into_response();
    }
    match std::fs::read(forge.folder.join(request.uri().path().trim_start_matches('/'))) {
        Ok(content) => content.into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Files below a directory that hold the token.
fn files_with_token(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with_token(&entry.path()));
        } else if std::fs::read(entry.path())
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(TOKEN))
        {
            found.push(entry.path());
        }
    }
    found
}

#[tokio::test]
async fn a_token_in_an_address_signs_git_in_and_is_kept_for_git_alone() {
    let folder = tempfile::tempdir().unwrap();
    let forge = Forge::start(folder.path()).await;
    let url = forge.url(&format!("{TOKEN}@"), "private.git");
    let site = LocalSite::new().project(project("private", Some(&url)));
    let local = site.start().await;
    let created = local.create("private", "agent", "").await.body;
    let ready = local.until(&created["id"], is_ready).await;
    let agent = ready.latest_build.resources[0].agents[0].id;
    let fetched =
        local.client().exec(agent, &Command::new(["git", "fetch", "--quiet", "origin"])).await.unwrap();
    assert_eq!(fetched.exit, Exit::Code(0), "{}", String::from_utf8_lossy(&fetched.stderr));
    let origin = git(&site.workspace("agent").join("repo"), &["remote", "get-url", "origin"]);
    assert_eq!(origin, forge.url("", "private.git"));
    assert_eq!(files_with_token(site.data_dir()), [site.workspace("agent").join("fleet/git-credentials")]);
    let callers = forge.callers.lock().unwrap().clone();
    assert!(callers.iter().any(|line| line.contains("clone")), "{callers:?}");
    assert!(callers.iter().all(|line| !line.contains(TOKEN)), "{callers:?}");
    local.coder.stop().await;
}

#[tokio::test]
async fn a_token_in_an_address_that_does_not_clone_is_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let forge = Forge::start(folder.path()).await;
    let url = forge.url(&format!("{TOKEN}@"), "absent.git");
    let site = LocalSite::new().project(project("absent", Some(&url)));
    let local = site.start().await;
    let created = local.create("absent", "agent", "").await.body;
    let failed = local.until(&created["id"], is_over).await;
    let clean = forge.url("", "absent.git");
    let expected = format!("git could not clone {clean}: fatal: repository '{clean}/' not found");
    assert_eq!(failed.latest_build.job.error, Some(expected));
    assert_eq!(files_with_token(site.data_dir()), Vec::<PathBuf>::new());
    local.coder.stop().await;
}
