//! The project `here`: clones of the caller's repository, and runs in the directory itself.

use std::path::Path;

use fleet_mcp::app::agents::CreateAgent;
use fleet_mcp::app::caller::Caller;
use fleet_mcp::coder::exec::{Command, Exit};
use serde_json::json;

use super::isolation::is_skipped;
use crate::harness::{
    CREATE, LocalSite, RunningFleet, RunningLocal, create_command, is_over, is_ready, operator,
};

pub(super) fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    command.args(["-c", "user.name=Test", "-c", "user.email=test@example.com"]).args(arguments);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(super) fn repository() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    git(directory.path(), &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(directory.path().join("file"), "content").unwrap();
    git(directory.path(), &["add", "."]);
    git(directory.path(), &["commit", "--quiet", "--message=first"]);
    directory
}

async fn delete(local: &RunningLocal, id: &serde_json::Value, orphan: bool) {
    let deleted = local.build(id, &json!({ "transition": "delete", "orphan": orphan })).await;
    assert_eq!(deleted.status, 201, "{}", deleted.body);
    assert_eq!(local.until(id, is_over).await.latest_build.status, "deleted");
}

/// Agents run as the caller's user and may have put it there for the next one.
#[tokio::test]
async fn a_link_in_the_callers_repository_leads_nothing_into_a_clone() {
    let caller = repository();
    let site = LocalSite::new().here(caller.path());
    let (secret, exclude) = (site.data_dir().join("secret"), caller.path().join(".git/info/exclude"));
    std::fs::create_dir_all(site.data_dir()).unwrap();
    std::fs::write(&secret, "the operator's token").unwrap();
    std::fs::create_dir_all(exclude.parent().unwrap()).unwrap();
    std::fs::write(&exclude, "*.log\n").unwrap();
    let local = site.start().await;
    let mut copied = Vec::new();
    for name in ["before", "after"] {
        let created = local.create("here", name, "").await.body;
        local.until(&created["id"], is_ready).await;
        copied.push(std::fs::read_to_string(site.workspace(name).join("repo/.git/info/exclude")).ok());
        std::fs::remove_file(&exclude).ok();
        std::os::unix::fs::symlink(&secret, &exclude).unwrap();
    }
    assert_eq!(copied, [Some("*.log\n".to_owned()), None]);
    local.coder.stop().await;
}

#[tokio::test]
async fn an_agent_works_in_a_clone_on_a_branch_of_its_own_that_outlives_it() {
    let caller = repository();
    let site = LocalSite::new().here(caller.path());
    let local = site.start().await;
    let created = local.create("here", "helper", "commit of the agent").await.body;
    local.until(&created["id"], is_ready).await;
    let repo = site.workspace("helper").join("repo");
    assert_eq!(git(&repo, &["branch", "--show-current"]), "fleet/helper");
    local
        .until(&created["id"], |workspace| {
            workspace.latest_app_status.as_ref().is_some_and(|status| status.state == "complete")
        })
        .await;
    let work = git(&repo, &["rev-parse", "HEAD"]);
    assert_ne!(work, git(caller.path(), &["rev-parse", "main"]));
    delete(&local, &created["id"], false).await;
    assert!(!repo.exists());
    assert_eq!(git(caller.path(), &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(caller.path(), &["rev-parse", "fleet/helper"]), work);
    let base = git(caller.path(), &["rev-parse", "main"]);
    let again = local.create("here", "helper", "").await.body;
    local.until(&again["id"], is_ready).await;
    assert_eq!(git(&repo, &["rev-parse", "HEAD"]), base);
    delete(&local, &again["id"], true).await;
    let kept = site.workspace_names();
    assert!(kept.len() == 1 && kept[0].starts_with("helper.orphan-"), "{kept:?}");
    assert_eq!(git(&site.workspace(&kept[0]).join("repo"), &["rev-parse", "HEAD"]), base);
    local.coder.stop().await;
}

/// The entries of a repository's worktrees, each with where it points.
fn entries(caller: &Path) -> Vec<String> {
    let folder = caller.join(".git/worktrees");
    let names = std::fs::read_dir(folder).into_iter().flatten();
    let mut entries: Vec<String> =
        names.map(|name| std::fs::read_to_string(name.unwrap().path().join("gitdir")).unwrap()).collect();
    entries.sort();
    entries
}

#[tokio::test]
async fn worktrees_of_others_stay_as_they_are_also_those_whose_directory_is_gone() {
    let (caller, elsewhere) = (repository(), tempfile::tempdir().unwrap());
    for name in ["lives", "stale"] {
        let path = elsewhere.path().join(name);
        git(caller.path(), &["worktree", "add", "--quiet", "-b", name, path.to_str().unwrap()]);
    }
    std::fs::remove_dir_all(elsewhere.path().join("stale")).unwrap();
    let of_others = entries(caller.path());
    assert_eq!(of_others.len(), 2);

    let site = LocalSite::new().here(caller.path());
    let local = site.start().await;
    let mut made = Vec::new();
    for name in ["first", "second"] {
        let created = local.create("here", name, "").await.body;
        local.until(&created["id"], is_ready).await;
        made.push(created["id"].clone());
    }
    assert_eq!(git(&site.workspace("first").join("repo"), &["branch", "--show-current"]), "fleet/first");
    delete(&local, &made[1], false).await;
    assert_eq!(git(&site.workspace("first").join("repo"), &["status", "--porcelain"]), "");
    delete(&local, &made[0], false).await;
    assert_eq!(entries(caller.path()), of_others);
    local.coder.stop().await;
}

/// Makes an agent's clone what it was when agents still had worktrees of the caller's repository.
fn make_worktree(site: &LocalSite, caller: &Path, id: &serde_json::Value) {
    let repo = site.workspace("helper").join("repo");
    std::fs::remove_dir_all(&repo).unwrap();
    let path = repo.to_str().unwrap();
    git(caller, &["worktree", "add", "--quiet", "--lock", path, "fleet/helper"]);
    let path = site.data_dir().join(format!("coder/workspaces/{}.json", id.as_str().unwrap()));
    let mut file: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    file["content"]["checkout"] = json!({ "worktree": { "of": caller } });
    std::fs::write(&path, file.to_string()).unwrap();
}

#[tokio::test]
async fn a_workspace_that_was_made_as_a_worktree_still_starts_stops_and_goes() {
    let caller = repository();
    let site = LocalSite::new().here(caller.path());
    let local = site.start().await;
    let id = local.create("here", "helper", "").await.body["id"].clone();
    local.until(&id, is_ready).await;
    local.coder.stop().await;
    make_worktree(&site, caller.path(), &id);
    let local = site.start().await;
    let ready = local.until(&id, is_ready).await;
    let agent = ready.latest_build.resources[0].agents[0].id;
    let commit = "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m work";
    let committed = local.client().exec(agent, &Command::new(["sh", "-c", commit])).await.unwrap();
    assert_eq!(committed.exit, Exit::Code(0), "{committed:?}");
    let work = git(caller.path(), &["rev-parse", "fleet/helper"]);
    assert_ne!(work, git(caller.path(), &["rev-parse", "main"]));
    for transition in ["stop", "start", "stop"] {
        local.build(&id, &json!({ "transition": transition })).await;
        assert_eq!(local.until(&id, is_over).await.latest_build.job.status, "succeeded");
    }
    delete(&local, &id, false).await;
    assert_eq!(entries(caller.path()), Vec::<String>::new());
    assert_eq!(git(caller.path(), &["rev-parse", "fleet/helper"]), work);
    local.coder.stop().await;
}

#[tokio::test]
async fn an_agent_comes_back_though_the_data_of_its_namesake_was_thrown_away() {
    let caller = repository();
    let (old, new) = (LocalSite::new().here(caller.path()), LocalSite::new().here(caller.path()));
    let local = old.start().await;
    let created = local.create("here", "helper", "").await.body;
    local.until(&created["id"], is_ready).await;
    local.coder.stop().await;
    std::fs::remove_dir_all(old.data_dir()).unwrap();
    let local = new.start().await;
    let created = local.create("here", "helper", "").await.body;
    local.until(&created["id"], is_ready).await;
    assert_eq!(git(&new.workspace("helper").join("repo"), &["branch", "--show-current"]), "fleet/helper");
    local.coder.stop().await;
}

#[tokio::test]
async fn runs_share_the_directory_itself_which_no_delete_touches() {
    let caller = repository();
    let site = LocalSite::new().here(caller.path());
    let local = site.start().await;
    let created = local.create("here", "runs-here", "").await.body;
    let ready = local.until(&created["id"], is_ready).await;
    assert_eq!(ready.latest_build.resources[0].agents[0].directory, caller.path().display().to_string());
    delete(&local, &created["id"], false).await;
    assert_eq!(std::fs::read_to_string(caller.path().join("file")).unwrap(), "content");
    assert_eq!(git(caller.path(), &["branch", "--format=%(refname:short)"]), "main");
    local.coder.stop().await;
}

#[tokio::test]
async fn each_workspace_for_runs_has_the_directory_it_was_made_for() {
    let (usual, other) = (repository(), repository());
    let site = LocalSite::new().here(usual.path());
    let local = site.start().await;
    let template = local.api().get("/api/v2/organizations/coder/templates/here").await.body;
    let values = json!([{ "name": "fleet_mcp_directory", "value": other.path() }]);
    let body =
        json!({ "name": "runs-here-0", "template_id": template["id"], "rich_parameter_values": values });
    let made = local.api().post(CREATE, &body).await.body;
    let ready = local.until(&made["id"], is_ready).await;
    assert_eq!(ready.latest_build.resources[0].agents[0].directory, other.path().display().to_string());
    delete(&local, &made["id"], false).await;
    assert_eq!(std::fs::read_to_string(other.path().join("file")).unwrap(), "content");
    local.coder.stop().await;
}

#[tokio::test]
async fn a_directory_that_was_turned_into_a_way_to_the_fleets_data_leads_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    let directory = outside.path().join("callers");
    std::fs::create_dir(&directory).unwrap();
    let site = LocalSite::new().here(&directory);
    let local = site.start().await;
    if is_skipped(local.coder.isolation()) {
        return;
    }
    let created = local.create("here", "runs-here", "").await.body;
    local.until(&created["id"], is_ready).await;
    local.build(&created["id"], &json!({ "transition": "stop" })).await;
    local.until(&created["id"], is_over).await;
    std::fs::remove_dir(&directory).unwrap();
    std::os::unix::fs::symlink(site.data_dir().join("coder"), &directory).unwrap();
    local.build(&created["id"], &json!({ "transition": "start" })).await;
    let failed = local.until(&created["id"], is_over).await.latest_build.job.error.unwrap_or_default();
    assert!(failed.contains("cannot work in"), "{failed}");
    local.coder.stop().await;
}

#[tokio::test]
async fn a_fleet_on_a_deployment_leaves_the_directory_to_that() {
    let (deployments, callers) = (repository(), repository());
    let site = LocalSite::new().here(deployments.path());
    let local = site.start().await;
    let running = RunningFleet::start(&local.url, &local.token).await.seen().await;
    let caller = Caller { directory: Some(callers.path().to_owned()), ..operator() };
    let command = CreateAgent { project: "here".to_owned(), ..create_command("helper") };
    running.fleet.agent_create(&caller, command).await.unwrap();
    running.rests("helper").await;
    let branches =
        |repository: &Path| git(repository, &["for-each-ref", "--format=%(refname)", "refs/heads/fleet"]);
    assert_eq!([branches(deployments.path()), branches(callers.path())], ["refs/heads/fleet/helper", ""]);
    running.stop().await;
    local.coder.stop().await;
}

#[tokio::test]
async fn a_directory_without_a_commit_fails_with_the_remedy_and_leaves_nothing() {
    let plain = tempfile::tempdir().unwrap();
    let site = LocalSite::new().here(plain.path());
    let local = site.start().await;
    let created = local.create("here", "helper", "").await.body;
    let failed = local.until(&created["id"], is_over).await;
    let expected = format!(
        "{} is not a git repository: run 'git init' and make a first commit there",
        plain.path().display()
    );
    assert_eq!(failed.latest_build.job.error, Some(expected));
    assert_eq!(site.workspace_names(), Vec::<String>::new());
    local.coder.stop().await;
}

#[tokio::test]
async fn other_refusals_of_git_are_shown_in_its_own_words() {
    let caller = repository();
    std::fs::write(caller.path().join(".git/config"), "[broken\n").unwrap();
    let site = LocalSite::new().here(caller.path());
    let local = site.start().await;
    let created = local.create("here", "helper", "").await.body;
    let failed = local.until(&created["id"], is_over).await;
    let expected = format!(
        "git could not use {}: fatal: bad config line 1 in file .git/config",
        caller.path().display()
    );
    assert_eq!(failed.latest_build.job.error, Some(expected));
    local.coder.stop().await;
}
