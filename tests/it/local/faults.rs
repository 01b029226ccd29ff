//! What cannot work says so clearly and leaves nothing half made.

use std::path::Path;

use serde_json::{Value, json};

use super::here::repository;
use crate::harness::{
    Api, CREATE, LocalSite, TEMPLATE, client, eventually, is_over, is_ready, project, script, watched,
};

/// The error of a start, with paths of this run taken out.
async fn refusal(site: &LocalSite) -> String {
    let error = site.try_start().await.err().expect("it does not start");
    let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{cause}").replace(&site.data_dir().display().to_string(), "DATA")
}

async fn failure(site: &LocalSite, template: &str) -> String {
    let local = site.start().await;
    let created = local.create(template, "agent", "").await.body;
    let failed = local.until(&created["id"], is_over).await.latest_build;
    let logs = local.client().build_logs(failed.id, None).await.unwrap();
    let error = failed.job.error.unwrap();
    let last = logs.iter().rev().find(|line| line.log_level == "error").unwrap();
    assert_eq!(last.output, error, "the log says it too");
    assert_eq!((failed.status.as_str(), site.workspace_names()), ("failed", Vec::new()));
    local.coder.stop().await;
    error
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut site = LocalSite::new();
    site.options.port = taken.local_addr().unwrap().port();
    let expected = format!(
        "cannot listen on 127.0.0.1:{}: another program may use the port; choose another one, or port 0: \
         Address already in use (os error 98)",
        site.options.port
    );
    assert_eq!(refusal(&site).await, expected);
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_written_to_is_named() {
    let mut site = LocalSite::new();
    std::fs::write(site.directory.path().join("file"), "").unwrap();
    site.options.data_dir = site.directory.path().join("file/data");
    assert_eq!(refusal(&site).await, "cannot use DATA: Not a directory (os error 20)");
}

#[tokio::test]
async fn a_state_file_that_cannot_be_read_is_named_and_left_as_it_is() {
    let site = LocalSite::new();
    site.start().await.coder.stop().await;
    let path = site.data_dir().join("coder/workspaces/broken.json");
    std::fs::write(&path, "{}").unwrap();
    let expected = "cannot use the state file DATA/coder/workspaces/broken.json: missing field `format` at \
                    line 1 column 2; move it away to continue without it";
    assert_eq!(refusal(&site).await, expected);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
}

#[tokio::test]
async fn a_repository_that_does_not_clone_fails_the_build_with_gits_reason() {
    let site = LocalSite::new().project(project("gone", Some("/nowhere/at/all")));
    let error = failure(&site, "gone").await;
    assert_eq!(
        error,
        "git could not clone /nowhere/at/all: fatal: repository '/nowhere/at/all' does not exist"
    );
}

#[tokio::test]
async fn an_address_that_git_could_take_for_a_command_is_refused() {
    let site = LocalSite::new().project(project("evil", Some("ext::sh -c touch% /tmp/x")));
    let error = failure(&site, "evil").await;
    let expected = "'ext::sh -c touch% /tmp/x' cannot be used as a repository address or branch: git could take it \
                    for an option or a command; correct repo or branch in the project file";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn an_agent_that_cannot_start_fails_the_build_with_what_it_printed() {
    let mut site = LocalSite::new();
    site.options.runner.program = "/bin/sh".into();
    site.options.runner.arguments = vec!["-c".into(), "echo no luck >&2; exit 3".into()];
    assert_eq!(failure(&site, TEMPLATE).await, "the agent's process ended before it was ready: no luck");
    site.options.runner.program = "/nowhere/runner".into();
    std::fs::remove_dir_all(site.data_dir()).unwrap();
    // In the enclosure it is the enclosing program that reports it missing.
    let error = failure(&site, TEMPLATE).await;
    let expected = "cannot start /nowhere/runner: No such file or directory (os error 2)";
    assert!(error.ends_with(expected), "{error}");
}

#[tokio::test]
async fn an_agent_that_never_answers_fails_the_build_at_its_deadline() {
    let mut site = LocalSite::new();
    site.options.runner.program = "/bin/sh".into();
    site.options.runner.arguments = vec!["-c".into(), "sleep 600".into()];
    site.options.build_deadline = std::time::Duration::from_secs(1);
    let expected = "the build took longer than 1 s and was stopped; read its log for the blocked step, then repeat the \
                    operation";
    assert_eq!(failure(&site, TEMPLATE).await, expected);
    assert_eq!(site.processes(), Vec::<u32>::new());
}

#[tokio::test]
async fn create_refuses_an_existing_directory_without_a_workspace() {
    let site = LocalSite::new();
    site.start().await.coder.stop().await;
    std::fs::create_dir(site.workspace("agent")).unwrap();
    std::fs::write(site.workspace("agent").join("precious"), "x").unwrap();
    let local = site.start().await;
    let created = local.create(TEMPLATE, "agent", "").await.body;
    let failed = local.until(&created["id"], is_over).await.latest_build;
    let expected = format!(
        "{} already exists and belongs to no workspace; move it away and try again",
        site.workspace("agent").display()
    );
    assert_eq!(failed.job.error, Some(expected));
    assert!(site.workspace("agent").join("precious").exists());
    local.coder.stop().await;
}

/// Runs a Coder of its own process under a shell's limits.
pub(super) async fn with_shell(
    site: &LocalSite,
    script: &str,
    path: &Path,
) -> (tokio::process::Child, Api, String) {
    let mut command = tokio::process::Command::new("/bin/sh");
    command.arg("-c").arg(format!("{script} exec \"$0\" local-coder --data-dir \"$1\""));
    command.arg(env!("CARGO_BIN_EXE_fleet-mcp")).arg(site.data_dir()).env_clear();
    command.env("PATH", path).env("HOME", site.directory.path()).kill_on_drop(true);
    let child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let address = site.data_dir().join("coder.json");
    eventually("the Coder announces itself", async || address.exists()).await;
    let file: Value = serde_json::from_str(&std::fs::read_to_string(address).unwrap()).unwrap();
    let token = std::fs::read_to_string(site.data_dir().join("coder.token")).unwrap();
    let url = file["url"].as_str().unwrap().trim_end_matches('/').to_owned();
    (child, Api::new(&url, &token), url)
}

#[tokio::test]
async fn a_disk_that_takes_no_more_refuses_the_create_and_goes_on() {
    let site = LocalSite::new();
    // Files may not grow beyond 128 KiB: for a long spec that is a full disk.
    let script = "trap '' XFSZ; ulimit -f 256;";
    let (_child, api, url) = with_shell(&site, script, Path::new("/usr/bin:/bin")).await;
    let template = api.get("/api/v2/organizations/coder/templates/setup").await.body["id"].clone();
    let create = async |name: &str, prompt: String| {
        let values = json!([{ "name": "AI Prompt", "value": prompt }]);
        let body = json!({ "name": name, "template_id": template, "rich_parameter_values": values });
        api.post(CREATE, &body).await
    };
    let refused = create("long", "x".repeat(200_000)).await;
    assert_eq!((refused.status, &refused.body["message"]), (500, &json!("Internal server error")));
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("cannot write ") && detail.ends_with("File too large (os error 27)"),
        "{detail}"
    );
    assert_eq!(api.get("/api/v2/workspaces").await.body["count"], 0);
    assert_eq!(std::fs::read_dir(site.data_dir().join("coder/workspaces")).unwrap().count(), 0);
    let made = create("short", "say hello".to_owned()).await;
    assert_eq!(made.status, 201);
    let token = std::fs::read_to_string(site.data_dir().join("coder.token")).unwrap();
    let id = made.body["id"].as_str().unwrap().parse().unwrap();
    let ended = watched(&Api::new(&url, &token), id, is_over).await;
    assert_eq!(ended.latest_build.status, "running");
}

/// The error of a build by a Coder that finds its programs there.
async fn failure_with_path(site: &LocalSite, path: &Path) -> String {
    let (_child, api, url) = with_shell(site, "", path).await;
    let created = api.workspace_create("setup", "agent").await.body;
    let token = std::fs::read_to_string(site.data_dir().join("coder.token")).unwrap();
    let id = created["id"].as_str().unwrap().parse().unwrap();
    let failed = watched(&Api::new(&url, &token), id, is_over).await.latest_build;
    assert_eq!((failed.status.as_str(), site.workspace_names()), ("failed", Vec::new()));
    failed.job.error.unwrap()
}

#[tokio::test]
async fn without_git_a_build_fails_and_says_so() {
    let (site, empty) = (LocalSite::new(), tempfile::tempdir().unwrap());
    let expected = "git was not found on the PATH: install git and start the workspace again";
    assert_eq!(failure_with_path(&site, empty.path()).await, expected);
}

#[tokio::test]
async fn a_delete_ends_although_git_is_gone_and_says_what_it_leaves() {
    let (site, programs, caller) = (LocalSite::new(), tempfile::tempdir().unwrap(), repository());
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|path| path.join("git")).find(|git| git.exists()).unwrap();
    let git = programs.path().join("git");
    std::os::unix::fs::symlink(found, &git).unwrap();
    let script = format!("cd '{}';", caller.path().display());
    let (_child, api, url) = with_shell(&site, &script, programs.path()).await;
    let created = api.workspace_create("here", "helper").await.body;
    let id = created["id"].as_str().unwrap().parse().unwrap();
    let client = client(&url, &std::fs::read_to_string(site.data_dir().join("coder.token")).unwrap());
    watched(&api, id, is_ready).await;
    std::fs::remove_file(git).unwrap();
    api.post(&format!("/api/v2/workspaces/{id}/builds"), &json!({ "transition": "delete" })).await;
    let deleted = watched(&api, id, is_over).await.latest_build;
    assert_eq!((deleted.job.error, deleted.status.as_str()), (None, "deleted"));
    let logs = client.build_logs(deleted.id, None).await.unwrap();
    let warned = logs.iter().filter(|line| line.stage == "Removing the record of the repository");
    let expected = "git was not found on the PATH: install git and start the workspace again";
    assert_eq!(warned.map(|line| line.output.as_str()).collect::<Vec<_>>(), [expected]);
    assert_eq!(site.workspace_names(), Vec::<String>::new());
}

#[tokio::test]
async fn a_git_that_is_killed_fails_the_build_with_how_it_ended() {
    let (site, programs) = (LocalSite::new(), tempfile::tempdir().unwrap());
    script(&programs.path().join("git"), "#!/bin/sh\nkill -9 $$\n");
    let expected = "git could not create an empty repository: it ended with signal: 9 (SIGKILL)";
    assert_eq!(failure_with_path(&site, programs.path()).await, expected);
}
