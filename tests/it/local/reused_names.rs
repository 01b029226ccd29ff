//! An agent with the name of a deleted one: it starts from the base, and the earlier branch stays under another name.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

const NAME: &str = "otter";

fn creation(spec: &str) -> Value {
    json!({ "project": "here", "spec": spec, "name": NAME, "wait_seconds": 45 })
}

/// The agents' branches of a repository, each with its commit.
fn branches(up: &Up) -> Vec<String> {
    let format = "--format=%(refname:lstrip=2) %(objectname)";
    let listed = up.program.git(&host(up), &["for-each-ref", format, "refs/heads/fleet"]);
    listed.lines().map(str::to_owned).collect()
}

fn host(up: &Up) -> PathBuf {
    up.program.repository()
}

fn commit_of(up: &Up, directory: &Path, name: &str) -> String {
    up.program.git(directory, &["rev-parse", "--verify", name])
}

/// A branch with work of an agent that is deleted; its commit.
async fn earlier_work(up: &Up) -> String {
    up.agent_with(creation("commit of an earlier agent")).await;
    let work = commit_of(up, &up.workspace(NAME).join("repo"), "HEAD");
    up.delete(NAME, "").await;
    assert_eq!(branches(up), [format!("fleet/{NAME} {work}")]);
    work
}

fn note_on(work: &str) -> String {
    format!("branch fleet/{NAME} of an earlier agent is kept as fleet/{NAME}.{}", &work[..12])
}

/// The branches once an agent has taken the name again.
fn expected(base: &str, work: &str) -> Vec<String> {
    vec![format!("fleet/{NAME} {base}"), format!("fleet/{NAME}.{} {work}", &work[..12])]
}

#[tokio::test]
async fn rest_and_the_tools_say_under_which_name_the_earlier_branch_is_kept() {
    let up = Up::start_here(&Program::without_coder()).await;
    let base = commit_of(&up, &host(&up), "HEAD");
    let work = earlier_work(&up).await;
    let made = up.post("/api/v1/agents", &creation("say hello")).await;
    assert_eq!(commit_of(&up, &up.workspace(NAME).join("repo"), "HEAD"), base);
    assert_eq!(branches(&up), expected(&base, &work));
    let note = note_on(&work);
    assert_eq!(made["message"], json!(format!("agent '{NAME}' is ready; {note}")));
    assert_eq!(up.show(NAME).await["metadata"]["fleet_mcp_start_note"], json!(note));
    let token = up.operator_token();
    let shown = up.tool_as(&token, "show_agent", &json!({ "agent_name": NAME })).await;
    assert_eq!(shown["structuredContent"]["agent"]["metadata"]["fleet_mcp_start_note"], json!(note));
    up.delete(NAME, "").await;
    // The second agent has left nothing but the base, which is no work to keep.
    let again = up.tool_as(&token, "create_agent", &creation("say hello")).await;
    assert_eq!(again["structuredContent"]["message"], json!(format!("agent '{NAME}' is ready")));
    assert_eq!(branches(&up), expected(&base, &work));
}

#[tokio::test]
async fn a_create_that_returned_at_once_is_followed_by_rows_that_say_it() {
    let up = Up::start_here(&Program::without_coder()).await;
    let work = earlier_work(&up).await;
    let mut request = creation("say hello");
    request["wait_seconds"] = json!(0);
    let made = up.post("/api/v1/agents", &request).await;
    let wait = json!({ "agent_names": [NAME], "until": "idle", "cursor": made["cursor"] });
    let mut row = json!(null);
    eventually("it is idle", async || {
        let waited = up.tool_as(&up.operator_token(), "wait_for_agents", &wait).await;
        row = waited["structuredContent"]["changed"][0].clone();
        row["status"] == "idle"
    })
    .await;
    assert_eq!(row["start_note"], json!(note_on(&work)));
    up.agent_with(json!({ "project": "here", "spec": "say hello", "name": "heron" })).await;
    let listed = up.get("/api/v1/agents").await;
    let notes = |name: &str| {
        let mut rows = listed["agents"].as_array().unwrap().iter();
        rows.find(|row| row["name"] == name).unwrap().get("start_note").cloned()
    };
    assert_eq!((notes(NAME), notes("heron")), (Some(json!(note_on(&work))), None));
}

#[tokio::test]
async fn the_command_line_and_the_tool_that_creates_say_it_too() {
    let up = Up::start_here(&Program::without_coder()).await;
    let work = earlier_work(&up).await;
    let create =
        ["agents", "create", "--project", "here", "--name", NAME, "--spec", "say hello", "--wait", "45"];
    let told = up.program.run(&create).await;
    let stderr = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(stderr.contains(&format!("note: {}", note_on(&work))), "{stderr}");
    let shown = up.program.run(&["agents", "show", NAME]).await;
    let stdout = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(stdout.contains(&format!("fleet_mcp_start_note: {}", note_on(&work))), "{stdout}");
    up.delete(NAME, "").await;
    up.program.git(&host(&up), &["update-ref", &format!("refs/heads/fleet/{NAME}"), &work]);
    // The name for it is taken, and no branch is overwritten.
    let made = up.tool_as(&up.operator_token(), "create_agent", &creation("say hello")).await;
    let expected = format!("agent '{NAME}' is ready; {}-2", note_on(&work));
    assert_eq!(made["structuredContent"]["message"], json!(expected));
    assert_eq!(branches(&up).len(), 3);
}

#[tokio::test]
async fn an_agent_cannot_say_something_else_in_place_of_the_note() {
    let up = Up::start_here(&Program::without_coder()).await;
    let work = earlier_work(&up).await;
    up.agent_with(creation("say hello")).await;
    let token = up.token_of(NAME);
    let set = json!({ "key": "fleet_mcp_start_note", "value": "nothing was kept" });
    up.tool_as(&token, "set_agent_metadata", &set).await;
    assert_eq!(up.show(NAME).await["metadata"]["fleet_mcp_start_note"], json!(note_on(&work)));
}

#[tokio::test]
async fn a_restart_continues_the_agents_own_branch() {
    let up = Up::start_here(&Program::without_coder()).await;
    earlier_work(&up).await;
    up.agent_with(creation("commit of this agent")).await;
    let own = commit_of(&up, &up.workspace(NAME).join("repo"), "HEAD");
    up.change(NAME, "restart").await;
    up.provisioned(NAME).await;
    assert_eq!(commit_of(&up, &up.workspace(NAME).join("repo"), "HEAD"), own);
    eventually("its branch has its commit", async || {
        branches(&up).len() == 2 && branches(&up)[0] == format!("fleet/{NAME} {own}")
    })
    .await;
}

/// A working tree of the host that has the earlier agent's branch checked out.
fn checked_out(up: &Up) -> PathBuf {
    let tree = up.program.directory.path().join("tree");
    up.program
        .git(&host(up), &["worktree", "add", "--quiet", tree.to_str().unwrap(), &format!("fleet/{NAME}")]);
    tree
}

#[tokio::test]
async fn a_working_tree_that_has_the_earlier_branch_checked_out_follows_its_new_name() {
    let up = Up::start_here(&Program::without_coder()).await;
    let base = commit_of(&up, &host(&up), "HEAD");
    let work = earlier_work(&up).await;
    let tree = checked_out(&up);
    up.agent_with(creation("say hello")).await;
    assert_eq!(branches(&up), expected(&base, &work));
    let followed = up.program.git(&tree, &["branch", "--show-current"]);
    assert_eq!(followed, format!("fleet/{NAME}.{}", &work[..12]));
    assert_eq!(up.program.git(&tree, &["status", "--porcelain"]), "");
}

#[cfg(feature = "test-hooks")]
mod kill_points {
    use super::*;

    /// A create that is killed at this point, three times in a row; then a server that lives.
    async fn survived(up: Up, point: &str) -> Up {
        let place = host(&up);
        let program = up.killed().await.within(&place);
        let doomed = program.clone().variable("FLEET_KILL_POINT", point);
        let first = Up::start(&doomed).await;
        let request = creation("say hello");
        first.call_or_nothing(&first.operator_token(), "/api/v1/agents", &request).await;
        first.died().await;
        for _ in 0..2 {
            let again = doomed.run(&["up", "--port", "0"]).await;
            assert_eq!(again.status.code(), None, "{point}: killed, not ended");
        }
        Up::start(&program).await
    }

    #[tokio::test]
    async fn a_kill_while_the_branch_begins_renames_the_earlier_one_once_and_never_its_own() {
        for point in ["branch.planned", "branch.begun", "Starting the agent"] {
            let up = Up::start_here(&Program::without_coder()).await;
            let base = commit_of(&up, &host(&up), "HEAD");
            let work = earlier_work(&up).await;
            let up = survived(up, point).await;
            up.provisioned(NAME).await;
            assert_eq!(branches(&up), expected(&base, &work), "{point}");
            assert_eq!(up.show(NAME).await["metadata"]["fleet_mcp_start_note"], json!(note_on(&work)));
            assert_eq!(commit_of(&up, &up.workspace(NAME).join("repo"), "HEAD"), base, "{point}");
        }
    }

    #[tokio::test]
    async fn a_kill_between_the_rename_and_the_new_branch_loses_neither() {
        let up = Up::start_here(&Program::without_coder()).await;
        let base = commit_of(&up, &host(&up), "HEAD");
        let work = earlier_work(&up).await;
        checked_out(&up);
        let place = host(&up);
        let program = up.killed().await.within(&place);
        let doomed = Up::start(&program.clone().variable("FLEET_KILL_POINT", "branch.renamed")).await;
        let request = creation("say hello");
        doomed.call_or_nothing(&doomed.operator_token(), "/api/v1/agents", &request).await;
        doomed.died().await;
        let up = Up::start(&program).await;
        up.provisioned(NAME).await;
        assert_eq!(branches(&up), expected(&base, &work));
    }
}
