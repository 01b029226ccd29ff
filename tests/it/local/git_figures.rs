//! What is shown of an agent's repository: its commits are counted against the commit that it started from.

use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

/// A server in a repository of two commits that has no remote.
async fn up_here(program: &Program) -> Up {
    let host = program.repository();
    program.git(&host, &["commit", "-q", "--allow-empty", "-m", "second"]);
    Up::start(&program.within(&host)).await
}

/// What is shown of the agent's repository, once it is what the repository holds.
async fn figures(up: &Up, name: &str) -> Value {
    let repository = up.workspace(name).join("repo");
    let head = up.program.git(&repository, &["rev-parse", "HEAD"]);
    eventually("the newest commit is shown", async || up.show(name).await["git"]["head"] == head).await;
    up.show(name).await["git"].clone()
}

fn expected(up: &Up, name: &str, counts: [u64; 3]) -> Value {
    let head = up.program.git(&up.workspace(name).join("repo"), &["rev-parse", "HEAD"]);
    let [ahead, behind, unpushed] = counts;
    json!({ "ahead": ahead, "behind": behind, "dirty": false, "unpushed": unpushed, "head": head })
}

#[tokio::test]
async fn without_a_remote_only_the_commits_since_the_start_are_unpushed() {
    let up = up_here(&Program::without_coder()).await;
    up.agent_with(json!({ "project": "here", "spec": "commit one\ncommit two", "name": "otter" })).await;
    assert_eq!(figures(&up, "otter").await, expected(&up, "otter", [2, 0, 2]));
    // A later start counts from the first one on.
    up.change("otter", "restart").await;
    up.provisioned("otter").await;
    let task = json!({ "task_description": "commit three" });
    up.post("/api/v1/agents/otter/tasks", &task).await;
    eventually("the task is done", async || {
        up.show("otter").await["last_task"]["message"] == "commit three"
            && up.show("otter").await["status"] == "idle"
    })
    .await;
    assert_eq!(figures(&up, "otter").await, expected(&up, "otter", [3, 0, 3]));
}

#[tokio::test]
async fn an_agent_of_a_cloned_project_is_counted_against_the_clone_and_its_remote() {
    let program = Program::without_coder();
    let upstream = program.repository();
    program.git(&upstream, &["commit", "-q", "--allow-empty", "-m", "second"]);
    program.git(&upstream, &["config", "receive.denyCurrentBranch", "ignore"]);
    let projects = program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    let file = format!("name = \"cloned\"\ntemplate = \"cloned\"\nrepo = \"{}\"\n", upstream.display());
    std::fs::write(projects.join("cloned.toml"), file).unwrap();
    let up = Up::start(&program).await;
    up.agent_with(json!({ "project": "cloned", "spec": "commit one", "name": "otter" })).await;
    assert_eq!(figures(&up, "otter").await, expected(&up, "otter", [1, 0, 1]));
    up.exec("otter", "git push -q origin HEAD").await;
    let task = json!({ "task_description": "commit two" });
    up.post("/api/v1/agents/otter/tasks", &task).await;
    eventually("the task is done", async || {
        up.show("otter").await["last_task"]["message"] == "commit two"
            && up.show("otter").await["status"] == "idle"
    })
    .await;
    assert_eq!(figures(&up, "otter").await, expected(&up, "otter", [2, 0, 1]));
}

#[tokio::test]
async fn a_task_by_exec_that_commits_nothing_leaves_nothing_unpushed() {
    let program = Program::without_coder();
    let projects = program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    let file = "name = \"here\"\ntemplate = \"here\"\napp_slug = \"none\"\nengine = \"demo\"\n";
    std::fs::write(projects.join("here.toml"), file).unwrap();
    let up = up_here(&program).await;
    up.agent_with(json!({ "project": "here", "spec": "say hello", "name": "otter" })).await;
    for (text, is_new) in [("say again", false), ("commit one", true)] {
        up.post("/api/v1/agents/otter/tasks", &json!({ "task_description": text })).await;
        eventually("the task is done", async || {
            let task = &up.show("otter").await["last_task"];
            task["message"] == text && task["state"] == "done"
        })
        .await;
        let commit = up.program.git(&up.workspace("otter").join("repo"), &["rev-parse", "HEAD"]);
        let verified = json!({ "commit": commit, "new_commit": is_new, "pushed": !is_new, "clean": true });
        assert_eq!(up.show("otter").await["last_task"]["verified"], verified, "{text}");
    }
}
