//! Kill -9 at every step of a build, several times in a row: the build is repeated and comes to its end.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::crashes::Server;
use super::here::{git, repository};
use crate::harness::{CREATE, LocalSite, eventually, is_ready};

/// A point at which the server dies.
#[derive(Debug, Clone, Copy)]
struct Point {
    name: &'static str,
    /// A repeat of the build comes here again, so that the next server dies here too.
    is_repeated: bool,
}

const fn again(name: &'static str) -> Point {
    Point { name, is_repeated: true }
}

const fn once(name: &'static str) -> Point {
    Point { name, is_repeated: false }
}

const OF_START: [Point; 9] = [
    again("Ending processes"),
    again("Creating the directory"),
    again("place.furnished"),
    again("Cloning the repository"),
    again("Starting the agent"),
    again("agent.spawned"),
    again("Waiting for the agent"),
    again("build.concluding"),
    once("build.concluded"),
];
const OF_STOP: [Point; 3] = [again("Ending processes"), again("build.concluding"), once("build.concluded")];
const OF_DELETE: [Point; 5] = [
    again("Ending processes"),
    // What is gone does not go again.
    once("place.moved"),
    again("place.removed"),
    again("build.concluding"),
    once("build.concluded"),
];
const NAME: &str = "helper";

struct Scene {
    site: LocalSite,
    caller: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { site: LocalSite::new(), caller: repository() }
    }

    fn caller(&self) -> &Path {
        self.caller.path()
    }

    async fn server(&self) -> Server {
        Server::start_in(&self.site, self.caller(), &[]).await
    }

    /// A workspace whose agent runs, on no server.
    async fn running(&self) -> Uuid {
        let server = self.server().await;
        let id = server.create("here", NAME).await;
        server.until(id, is_ready).await;
        server.kill().await;
        id
    }

    /// Lets the server die at this point, then two more if they come there too; gives a server that lives.
    async fn survive(&self, doomed: Server, point: Point) -> Server {
        doomed.died(point.name).await;
        for _ in 0..2 {
            if point.is_repeated {
                Server::dies_again(&self.site, self.caller(), point.name).await;
            }
        }
        self.server().await
    }

    async fn doomed(&self, point: Point) -> Server {
        Server::start_doomed(&self.site, self.caller(), point.name).await
    }

    /// A create whose answer may be lost with the server.
    async fn ask_create(&self, server: &Server) {
        let api = server.api();
        let template = api.get("/api/v2/organizations/coder/templates/here").await.body;
        let body = json!({ "name": NAME, "template_id": template["id"] });
        let _lost = api.try_post(CREATE, &body).await;
    }

    /// The one workspace, as it is written down.
    fn id(&self) -> Uuid {
        let states = std::fs::read_dir(self.site.data_dir().join("coder/workspaces")).unwrap();
        let paths = states.map(|entry| entry.unwrap().path());
        let ids: Vec<Uuid> = paths.filter_map(|path| path.file_stem()?.to_str()?.parse().ok()).collect();
        assert_eq!(ids.len(), 1);
        ids[0]
    }

    /// A build request whose answer may be lost with the server.
    async fn ask(&self, server: &Server, id: Uuid, body: Value) {
        let path = format!("/api/v2/workspaces/{id}/builds");
        let _lost = server.api().try_post(&path, &body).await;
    }

    /// The agent's process runs, and the server died before its build was over.
    async fn killed_at_the_end_of_a_start() -> Self {
        let scene = Self::new();
        let doomed = scene.doomed(once("build.concluding")).await;
        scene.ask_create(&doomed).await;
        doomed.died("build.concluding").await;
        scene
    }

    /// Does the record on disk name the process of the newest build's agent?
    fn has_recorded_process(&self) -> bool {
        let path = self.site.data_dir().join(format!("coder/workspaces/{}.json", self.id()));
        let state: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let builds = state["content"]["builds"].as_array().unwrap();
        builds.last().unwrap()["agent"]["process"].is_object()
    }

    /// What stands in the caller's repository for the agent.
    fn refs(&self) -> String {
        git(self.caller(), &["for-each-ref", "--format=%(refname)", "refs/fleet/agents"]).trim().to_owned()
    }
}

/// How many builds there are, and each that did not succeed.
async fn builds(server: &Server, id: Uuid) -> (usize, Vec<Value>) {
    let builds = server.api().get(&format!("/api/v2/workspaces/{id}/builds")).await.body;
    let builds = builds.as_array().unwrap().clone();
    let is_bad = |build: &&Value| build["job"]["status"] != "succeeded";
    (builds.len(), builds.iter().filter(is_bad).cloned().collect())
}

#[tokio::test]
async fn a_first_start_killed_at_any_step_ends_with_one_agent_that_runs() {
    for point in OF_START {
        let scene = Scene::new();
        let doomed = scene.doomed(point).await;
        scene.ask_create(&doomed).await;
        let server = scene.survive(doomed, point).await;
        let id = scene.id();
        server.until(id, |now| is_ready(now) && now.health.healthy).await;
        assert_eq!(builds(&server, id).await, (1, Vec::new()), "{point:?}");
        eventually("one process runs", async || scene.site.processes().len() == 1).await;
        let made = (scene.site.workspace_names(), scene.refs());
        assert_eq!(made, (vec![NAME.to_owned()], format!("refs/fleet/agents/{NAME}")), "{point:?}");
        server.kill().await;
    }
}

#[tokio::test]
async fn a_process_that_answers_already_is_taken_over() {
    let mut scene = Scene::killed_at_the_end_of_a_start().await;
    // The record of a process is written behind its start: the kill may have come before it was on disk.
    for _ in 0..10 {
        if scene.has_recorded_process() {
            break;
        }
        scene = Scene::killed_at_the_end_of_a_start().await;
    }
    let started = scene.site.runners();
    let server = scene.server().await;
    server.until(scene.id(), |now| is_ready(now) && now.health.healthy).await;
    assert_eq!((scene.site.runners(), started.len()), (started, 1));
    server.kill().await;
}

#[tokio::test]
async fn a_stop_killed_at_any_step_ends_stopped() {
    for point in OF_STOP {
        let scene = Scene::new();
        let id = scene.running().await;
        let doomed = scene.doomed(point).await;
        scene.ask(&doomed, id, json!({ "transition": "stop" })).await;
        let server = scene.survive(doomed, point).await;
        server.until(id, |now| now.latest_build.status == "stopped").await;
        assert_eq!(builds(&server, id).await, (2, Vec::new()), "{point:?}");
        assert_eq!(scene.site.processes(), Vec::<u32>::new(), "{point:?}");
        server.kill().await;
    }
}

#[tokio::test]
async fn a_restart_killed_at_any_step_ends_with_one_agent_that_runs() {
    for point in OF_STOP {
        let scene = Scene::new();
        let id = scene.running().await;
        let doomed = scene.doomed(point).await;
        let restart = json!({ "transition": "stop", "on_success": { "transition": "start" } });
        scene.ask(&doomed, id, restart).await;
        let server = scene.survive(doomed, point).await;
        server.until(id, |now| now.latest_build.build_number == 3 && is_ready(now)).await;
        assert_eq!(builds(&server, id).await, (3, Vec::new()), "{point:?}");
        eventually("one process runs", async || scene.site.processes().len() == 1).await;
        server.kill().await;
    }
}

#[tokio::test]
async fn a_delete_killed_at_any_step_ends_with_nothing_left() {
    for point in OF_DELETE {
        let scene = Scene::new();
        let id = scene.running().await;
        let doomed = scene.doomed(point).await;
        scene.ask(&doomed, id, json!({ "transition": "delete" })).await;
        let server = scene.survive(doomed, point).await;
        let shown = format!("/api/v2/workspaces/{id}");
        eventually("it is gone", async || server.api().get(&shown).await.status == 410).await;
        assert_eq!(builds(&server, id).await, (2, Vec::new()), "{point:?}");
        let left = (scene.site.workspace_names(), scene.site.processes(), scene.refs());
        assert_eq!(left, (Vec::new(), Vec::new(), String::new()), "{point:?}");
        server.kill().await;
    }
}

/// Makes the newest build of a workspace one that was being canceled when the server died.
fn mark_canceling(site: &LocalSite, id: Uuid) {
    let path = site.data_dir().join(format!("coder/workspaces/{id}.json"));
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let last = file["content"]["builds"].as_array_mut().unwrap().last_mut().unwrap();
    let at = last["job"]["running"]["started_at"].take();
    last["job"] = json!({ "canceling": { "started_at": at, "canceled_at": "2026-01-01T00:00:00Z" } });
    std::fs::write(&path, file.to_string()).unwrap();
}

#[tokio::test]
async fn a_first_start_that_was_being_canceled_ends_canceled_and_clean() {
    for point in ["Creating the directory", "Cloning the repository", "agent.spawned", "build.concluding"] {
        let scene = Scene::new();
        let doomed = scene.doomed(once(point)).await;
        scene.ask_create(&doomed).await;
        doomed.died(point).await;
        let id = scene.id();
        mark_canceling(&scene.site, id);
        let server = scene.server().await;
        server.until(id, |now| now.latest_build.status == "canceled").await;
        let left = (scene.site.workspace_names(), scene.site.processes(), scene.refs());
        assert_eq!(left, (Vec::new(), Vec::new(), String::new()), "{point}");
        server.kill().await;
    }
}

/// Files that are gone do not come back, so such a cancel comes too late.
#[tokio::test]
async fn a_delete_that_was_being_canceled_after_its_files_went_ends_deleted() {
    let scene = Scene::new();
    let id = scene.running().await;
    let doomed = scene.doomed(once("place.moved")).await;
    scene.ask(&doomed, id, json!({ "transition": "delete" })).await;
    doomed.died("place.moved").await;
    mark_canceling(&scene.site, id);
    let server = scene.server().await;
    let shown = format!("/api/v2/workspaces/{id}");
    eventually("it is gone", async || server.api().get(&shown).await.status == 410).await;
    let left = (scene.site.workspace_names(), scene.site.processes(), scene.refs());
    assert_eq!(left, (Vec::new(), Vec::new(), String::new()));
    server.kill().await;
}
