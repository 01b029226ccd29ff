//! Create, stop, start, restart, cancel and delete: the order of states and what each leaves.

use fleet_mcp::coder::wire::{Build, CreateBuild, Workspace};
use fleet_mcp::coder::{Deleted, Page, WorkspaceQuery};

use super::{Subject, agent_id, on_every_coder};
use crate::harness::{is_over, is_ready};

/// The words of a start in their order; a watcher may miss some, but never sees them turned round.
const ORDER: [&str; 6] = [
    "pending  ",
    "starting  ",
    "running connecting created",
    "running connected created",
    "running connected starting",
    "running connected ready",
];

fn words(workspace: &Workspace) -> String {
    let agent = workspace.latest_build.resources.iter().flat_map(|resource| &resource.agents).next();
    let (status, lifecycle) =
        agent.map_or(("", ""), |agent| (agent.status.as_str(), agent.lifecycle_state.as_str()));
    format!("{} {status} {lifecycle}", workspace.latest_build.status)
}

fn n_agents(build: &Build) -> usize {
    build.resources.iter().flat_map(|resource| &resource.agents).count()
}

#[tokio::test]
async fn a_workspace_comes_up_in_the_order_of_states() {
    on_every_coder(async |subject: &Subject| {
        let made = subject.create().await;
        assert_eq!((words(&made), made.latest_build.resources.len()), (ORDER[0].to_owned(), 0));
        let seen = std::sync::Mutex::new(Vec::new());
        subject
            .until(made.id, |now| {
                seen.lock().unwrap().push(words(now));
                assert_ne!(now.latest_build.status, "failed", "{:?}", now.latest_build.job);
                is_ready(now)
            })
            .await;
        let seen = seen.into_inner().unwrap();
        let places: Vec<usize> =
            seen.iter().map(|words| ORDER.iter().position(|known| known == words).expect(words)).collect();
        assert!(places.is_sorted(), "{seen:?}");
        assert_eq!(places.last(), Some(&5));
    })
    .await;
}

#[tokio::test]
async fn stop_and_start_give_another_agent_and_keep_the_workspace() {
    on_every_coder(async |subject: &Subject| {
        let first = subject.create_ready().await;
        let stopped = subject.build(first.id, &CreateBuild::stop()).await;
        // A template may have resources that outlive a stop; agents are never among them.
        assert_eq!((stopped.latest_build.status.as_str(), n_agents(&stopped.latest_build)), ("stopped", 0));
        subject.build(first.id, &CreateBuild::start()).await;
        let second = subject.until(first.id, is_ready).await;
        assert_ne!(agent_id(&second), agent_id(&first));
        assert_eq!((second.id, second.latest_build.build_number), (first.id, 3));
        let builds = subject.client.workspace_builds(first.id, Page { limit: 0, offset: 0 }).await.unwrap();
        let shown: Vec<(i64, &str)> =
            builds.iter().map(|build| (build.build_number, build.transition.as_str())).collect();
        assert_eq!(shown, [(3, "start"), (2, "stop"), (1, "start")]);
        assert_eq!(n_agents(&builds[2]), 0, "builds before the newest have lost their agents");
    })
    .await;
}

#[tokio::test]
async fn a_restart_is_one_call_that_makes_two_builds() {
    on_every_coder(async |subject: &Subject| {
        let first = subject.create_ready().await;
        let stop = subject.client.build_create(first.id, &CreateBuild::restart()).await.unwrap();
        assert_eq!((stop.build_number, stop.transition.as_str()), (2, "stop"));
        let again = subject.until(first.id, |now| now.latest_build.build_number == 3 && is_ready(now)).await;
        assert_eq!(again.latest_build.transition, "start");
    })
    .await;
}

#[tokio::test]
async fn a_canceled_build_ends_as_canceled_and_the_workspace_can_be_deleted() {
    on_every_coder(async |subject: &Subject| {
        let made = subject.create().await;
        subject.client.build_cancel(made.latest_build.id).await.unwrap();
        let ended = subject.until(made.id, is_over).await.latest_build;
        // A real Coder that interrupts terraform in the middle calls the build failed, canceled though it was.
        let word = if ended.job.error.is_some() { "failed" } else { "canceled" };
        assert_eq!((ended.status.as_str(), ended.job.status.as_str()), (word, word));
        assert!(ended.job.canceled_at.is_some());
        let second = subject.client.build_cancel(made.latest_build.id).await.unwrap_err();
        assert!(second.to_string().contains("Job has already completed!"), "{second}");
        assert_eq!(subject.build(made.id, &CreateBuild::delete()).await.latest_build.status, "deleted");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_workspace_is_shown_only_on_request() {
    on_every_coder(async |subject: &Subject| {
        let made = subject.create_ready().await;
        subject.build(made.id, &CreateBuild::delete()).await;
        let one = format!("/api/v2/workspaces/{}", made.id);
        assert_eq!(subject.api.get(&one).await.status, 410);
        let shown = subject.client.workspace(made.id, Deleted::Include).await.unwrap();
        assert_eq!(shown.latest_build.status, "deleted");
        let by_name = subject.client.workspace_by_name("me", &made.name, Deleted::Exclude).await;
        assert!(by_name.is_err());
        let query = WorkspaceQuery {
            q: format!("name:{}", made.name),
            limit: 0,
            offset: 0,
            metadata_keys: Vec::new(),
        };
        assert_eq!(subject.client.workspaces(&query).await.unwrap().workspaces, []);
        let start = subject.client.build_create(made.id, &CreateBuild::start()).await.unwrap_err();
        assert!(start.to_string().contains("Cannot start a deleted workspace!"), "{start}");
    })
    .await;
}
