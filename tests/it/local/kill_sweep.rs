//! A blind sweep: the server is killed at different moments of every transition, and each comes to its end all the same.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use super::crashes::Server;
use super::here::{git, repository};
use crate::harness::{LocalSite, eventually, is_ready, moments};

/// What is under way when the server dies.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Create,
    Cancel,
    Stop,
    Start,
    Restart,
    Delete,
}

const DEEDS: [Deed; 6] = [Deed::Create, Deed::Cancel, Deed::Stop, Deed::Start, Deed::Restart, Deed::Delete];

impl Deed {
    fn name(self, round: usize) -> String {
        format!("{self:?}-{round}")
    }

    /// The words with which a workspace may come out of it: the kill is no reason for any other.
    fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Create | Self::Start | Self::Restart => &["running"],
            // A cancel may come too late.
            Self::Cancel => &["running", "canceled"],
            Self::Stop => &["stopped"],
            Self::Delete => &["deleted"],
        }
    }
}

async fn build(server: &Server, id: Uuid, body: Value) -> Value {
    let reply = server.api().post(&format!("/api/v2/workspaces/{id}/builds"), &body).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
    reply.body
}

/// Brings a workspace to where its deed can begin; nothing for those that begin with a create.
async fn prepare(server: &Server, project: &str, deed: Deed, round: usize) -> Option<Uuid> {
    match deed {
        Deed::Create | Deed::Cancel => None,
        Deed::Stop | Deed::Restart | Deed::Delete | Deed::Start => {
            let id = server.create(project, &deed.name(round)).await;
            server.until(id, is_ready).await;
            if matches!(deed, Deed::Start) {
                build(server, id, json!({ "transition": "stop" })).await;
                server.until(id, |now| now.latest_build.status == "stopped").await;
            }
            Some(id)
        }
    }
}

async fn begin(server: &Server, project: &str, (deed, prepared): (Deed, Option<Uuid>), round: usize) -> Uuid {
    let id = match prepared {
        Some(id) => id,
        None => server.create(project, &deed.name(round)).await,
    };
    let body = match deed {
        Deed::Create => return id,
        Deed::Cancel => {
            let made = server.api().get(&format!("/api/v2/workspaces/{id}")).await.body;
            let build = made["latest_build"]["id"].as_str().unwrap().to_owned();
            server.api().patch(&format!("/api/v2/workspacebuilds/{build}/cancel"), &json!({})).await;
            return id;
        }
        Deed::Stop => json!({ "transition": "stop" }),
        Deed::Start => json!({ "transition": "start" }),
        Deed::Restart => json!({ "transition": "stop", "on_success": { "transition": "start" } }),
        Deed::Delete => json!({ "transition": "delete" }),
    };
    build(server, id, body).await;
    id
}

/// The word a workspace has come to rest with.
async fn rest(server: &Server, id: Uuid, deed: Deed) -> String {
    let shown = format!("/api/v2/workspaces/{id}?include_deleted=true");
    let mut end = String::new();
    eventually(&format!("{deed:?} has come to its end"), async || {
        let now = server.api().get(&shown).await.body;
        end = now["latest_build"]["status"].as_str().unwrap().to_owned();
        assert_ne!(end, "failed", "{deed:?}: {}", now["latest_build"]["job"]["error"]);
        deed.ends().contains(&end.as_str())
    })
    .await;
    end
}

/// What is swept over: agents of one project, on a server that was started in this repository.
struct Ground<'a> {
    site: &'a LocalSite,
    caller: &'a Path,
    project: &'a str,
}

async fn one_round(ground: &Ground<'_>, round: usize, moment: Duration) {
    let Ground { site, caller, project } = ground;
    let server = Server::start_in(site, caller, &[]).await;
    let prepared = join_all(DEEDS.map(|deed| prepare(&server, project, deed, round))).await;
    let begun = DEEDS.into_iter().zip(prepared).map(|deed| begin(&server, project, deed, round));
    let ids = join_all(begun).await;
    // Not a wait for something: the moment of the kill is what varies.
    tokio::time::sleep(moment).await;
    server.kill().await;

    let server = Server::start_in(site, caller, &[]).await;
    let mut n_running = 0;
    for (deed, id) in DEEDS.into_iter().zip(&ids) {
        let end = rest(&server, *id, deed).await;
        n_running += usize::from(end == "running");
        let is_unmade = matches!(deed, Deed::Create | Deed::Cancel) && end != "running";
        let branch = format!("fleet/{}", deed.name(round));
        assert!(
            !is_unmade || git(caller, &["branch", "--list", &branch]).is_empty(),
            "{deed:?} after {moment:?}"
        );
    }
    eventually("there is a process for each that runs", async || site.processes().len() == n_running).await;
    for id in ids {
        let shown = server.api().get(&format!("/api/v2/workspaces/{id}")).await;
        if shown.status != 410 {
            build(&server, id, json!({ "transition": "delete" })).await;
            server.until(id, |now| now.latest_build.status == "deleted").await;
        }
    }
    assert_eq!((site.workspace_names(), site.processes()), (Vec::new(), Vec::new()));
    assert_eq!(git(caller, &["for-each-ref", "refs/fleet"]), "");
    server.kill().await;
}

async fn sweep(project: &str) {
    let (site, caller) = (LocalSite::new(), repository());
    let ground = Ground { site: &site, caller: caller.path(), project };
    for (round, milliseconds) in moments(&[0_u64, 4, 12, 40, 120]).into_iter().enumerate() {
        one_round(&ground, round, Duration::from_millis(milliseconds)).await;
    }
}

#[tokio::test]
async fn work_in_progress_at_a_server_kill_comes_to_its_end() {
    sweep("setup").await;
}

#[tokio::test]
async fn server_kill_during_any_build_leaves_the_callers_repository_clean() {
    sweep("here").await;
}
