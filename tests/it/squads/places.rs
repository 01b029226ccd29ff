//! Where members work: a directory inside the workspace, of a named agent, of the caller's own, or the one for runs.

use serde_json::{Value, json};

use super::{Squads, member};

fn at(cwd: &str) -> Value {
    json!({ "roleId": "coder", "task": "pwd", "cwd": cwd })
}

#[tokio::test]
async fn a_directory_is_resolved_inside_the_workspace_and_anything_else_is_that_members_error() {
    let squads = Squads::scripted().await;
    let repository = squads.repository();
    std::fs::create_dir_all(repository.join("a b/-c")).unwrap();
    std::os::unix::fs::symlink("a b", repository.join("inner")).unwrap();
    std::os::unix::fs::symlink("/", repository.join("outer")).unwrap();
    std::fs::write(repository.join("file"), "").unwrap();
    let inside = repository.join("a b/-c");
    let good = ["a b/-c", "inner/-c", "inner/../inner/-c/", inside.to_str().unwrap()];
    let bad = ["..", "/", "outer", "outer/tmp", "missing", "file", "-L"];
    let members: Vec<Value> = good.iter().chain(&bad).map(|cwd| at(cwd)).collect();
    let run = squads.run(&json!(members)).await;
    let members = run["members"].as_array().unwrap();
    for member in &members[..good.len()] {
        let shown = format!("{}\n", inside.display());
        assert_eq!((&member["cwd"], &member["rawStdout"]), (&json!(inside), &json!(shown)), "{member}");
    }
    let reasons: Vec<&str> = members[good.len()..].iter().map(|m| m["rawStderr"].as_str().unwrap()).collect();
    let outside = |cwd| format!("cwd '{cwd}' is outside the workspace");
    let missing = |cwd| format!("cwd '{cwd}' is not a directory in the workspace");
    let expected = [
        outside(".."),
        outside("/"),
        outside("outer"),
        outside("outer/tmp"),
        missing("missing"),
        missing("file"),
        missing("-L"),
    ];
    assert_eq!(reasons, expected);
    assert!(members[good.len()..].iter().all(|member| member["status"] == "error"));
    // Absolute all the same: where it leads, or where it would be.
    let places: Vec<&Value> = members[good.len()..].iter().map(|member| &member["cwd"]).collect();
    let above = repository.parent().unwrap();
    let [missing, file, flag] = ["missing", "file", "-L"].map(|name| repository.join(name));
    let expected = [above, "/".as_ref(), "/".as_ref(), "/tmp".as_ref(), &missing, &file, &flag];
    assert_eq!(places, expected.map(|path| json!(path)).each_ref());
}

#[tokio::test]
async fn a_named_agents_workspace_is_used_and_one_that_is_not_there_is_an_error() {
    let squads = Squads::scripted().await;
    squads.up.agent_with(json!({ "project": "setup", "spec": "true", "name": "otter" })).await;
    let named = |agent: &str| json!({ "roleId": "coder", "task": "pwd", "agent_name": agent });
    let run = squads.run(&json!([named("Otter"), named("nobody"), member("coder", "pwd")])).await;
    let otter = squads.up.workspace("otter").join("repo").canonicalize().unwrap();
    assert_eq!(run["members"][0]["cwd"], json!(otter), "{run}");
    assert_eq!(run["members"][1]["rawStderr"], "agent 'nobody' not found");
    assert_eq!(run["members"][2]["cwd"], json!(squads.repository()));
    squads.up.change("otter", "stop").await;
    let stopped = squads.run_one(named("otter")).await;
    assert_eq!(stopped["rawStderr"], "agent 'otter' is not running (stopped): the workspace is stopped");
}

#[tokio::test]
async fn the_workspace_for_runs_is_made_once_started_when_it_is_down_and_not_shown_among_agents() {
    let squads = Squads::scripted().await;
    let id = async || squads.up.show("runs-here").await["workspace_id"].clone();
    let run = squads.run(&json!([member("coder", "true"), member("coder", "true")])).await;
    assert_eq!(run["members"][0]["status"], "completed", "{run}");
    let first = id().await;
    squads.up.change("runs-here", "stop").await;
    assert_eq!(squads.run_one(member("coder", "true")).await["status"], "completed");
    assert_eq!(id().await, first);
    let shown = squads.up.get("/api/v1/agents").await;
    assert_eq!(shown["total_count"], 0);
    let taken = json!({ "project": "setup", "spec": "x", "name": "runs-mine" });
    let token = squads.up.operator_token();
    let refused = squads.up.call_as(&token, reqwest::Method::POST, "/api/v1/agents", &taken).await;
    assert_eq!(
        (refused.status, &refused.body["details"]["field"]),
        (400, &json!("name")),
        "{}",
        refused.body
    );
}
