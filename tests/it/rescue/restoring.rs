//! Restoring: a new branch of a repository, from the command line.

use std::path::Path;

use serde_json::{Value, json};

use super::{git, make_work};
use crate::harness::{Program, Up};

async fn rescued(up: &Up, name: &str) -> String {
    let deleted = up.delete(name, "").await;
    deleted["rescued"]["id"].as_str().unwrap_or_else(|| panic!("{deleted}")).to_owned()
}

async fn restore(up: &Up, id: &str, into: &Path) -> Value {
    up.program.json(&["--json", "rescue", "restore", id, "--into", into.to_str().unwrap()]).await
}

#[tokio::test]
async fn work_comes_back_as_a_branch_of_a_new_repository() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("otter").await;
    make_work(&up.workspace("otter").join("repo"));
    let id = rescued(&up, "otter").await;
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("new");
    let restored = restore(&up, &id, &into).await;
    let commit = git(&into, &["rev-parse", "rescue/otter"]);
    let expected = json!({
        "id": id, "agent_name": "otter", "repository": into, "branch": "rescue/otter", "commit": commit, "branches": []
    });
    assert_eq!(restored, expected);
    assert_eq!(git(&into, &["show", "rescue/otter:untracked.txt"]), "new");
    // Once more is the same; nothing was checked out.
    assert_eq!(restore(&up, &id, &into).await, expected);
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 1);
}

#[tokio::test]
async fn work_on_top_of_a_remote_goes_back_into_a_clone_of_it_and_nowhere_else() {
    let remote = tempfile::tempdir().unwrap();
    let upstream = remote.path().join("upstream");
    git(remote.path(), &["init", "--quiet", "--initial-branch=main", "upstream"]);
    std::fs::write(upstream.join("base.txt"), "base\n").unwrap();
    git(&upstream, &["add", "."]);
    git(&upstream, &["commit", "--quiet", "-m", "base"]);
    let program = Program::without_coder();
    std::fs::create_dir_all(program.data_dir().join("projects")).unwrap();
    let file = format!(
        "name = \"cloned\"\ndisplay_name = \"Cloned\"\ntemplate = \"cloned\"\nrepo = \"{}\"\n",
        upstream.display()
    );
    std::fs::write(program.data_dir().join("projects/cloned.toml"), file).unwrap();
    let up = Up::start(&program).await;
    up.agent_with(json!({ "project": "cloned", "spec": "say hello", "name": "otter" })).await;
    let repository = up.workspace("otter").join("repo");
    git(&repository, &["switch", "--quiet", "-c", "side"]);
    std::fs::write(repository.join("side.txt"), "side\n").unwrap();
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "side"]);
    git(&repository, &["switch", "--quiet", "main"]);
    std::fs::write(repository.join("base.txt"), "base\nmore\n").unwrap();
    let id = rescued(&up, "otter").await;

    let empty = remote.path().join("empty");
    let refused = up.program.run(&["rescue", "restore", &id, "--into", empty.to_str().unwrap()]).await;
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("next: Clone the project's repository"), "{complaint}");
    assert!(!empty.exists());

    git(remote.path(), &["clone", "--quiet", "upstream", "clone"]);
    let clone = remote.path().join("clone");
    let restored = restore(&up, &id, &clone).await;
    assert_eq!(
        (&restored["branch"], &restored["branches"]),
        (&json!("rescue/otter"), &json!(["rescue-branches/otter/side"]))
    );
    assert_eq!(git(&clone, &["show", "rescue/otter:base.txt"]), "base\nmore");
    assert_eq!(git(&clone, &["show", "rescue-branches/otter/side:side.txt"]), "side");
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");

    // A branch of that name with other work stays as it is.
    git(&clone, &["branch", "--force", "rescue/otter", "main"]);
    let again = restore(&up, &id, &clone).await;
    let end = &id[id.len() - 8..];
    assert_eq!(again["branch"], json!(format!("rescue/otter-{end}")));
    assert_eq!(git(&clone, &["rev-parse", "rescue/otter"]), git(&clone, &["rev-parse", "main"]));
}

#[tokio::test]
async fn what_cannot_be_restored_says_why() {
    let up = Up::start(&Program::without_coder()).await;
    let unknown = up.program.run(&["rescue", "restore", "0190e1a2-0000-7000-8000-000000000001"]).await;
    assert_eq!(unknown.status.code(), Some(3));
    assert_eq!(
        String::from_utf8_lossy(&unknown.stderr),
        "error: rescue '0190e1a2-0000-7000-8000-000000000001' not found\n  \
         next: Run 'fleet-mcp rescue list' to see what was saved.\n"
    );
    up.agent("otter").await;
    up.change("otter", "stop").await;
    up.delete("otter", "").await;
    let id = up.get("/api/v1/rescues").await["rescues"][0]["id"].as_str().unwrap().to_owned();
    let nothing = up.program.run(&["rescue", "restore", &id]).await;
    assert_eq!(nothing.status.code(), Some(3));
    let told = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(
        told.contains("has nothing to restore: its work was not saved: the workspace is not running"),
        "{told}"
    );
}
