//! Saving: unpushed and uncommitted work becomes a bundle; where that cannot be, the delete says so and goes on.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{git, make_work};
use crate::harness::{Program, Up, script};

/// For the rescue; what is left of a delete takes no time worth mentioning.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

async fn up() -> Up {
    Up::start(&Program::without_coder()).await
}

#[tokio::test]
async fn a_delete_saves_unpushed_and_uncommitted_work_and_tells_where() {
    let up = up().await;
    up.agent("otter").await;
    make_work(&up.workspace("otter").join("repo"));
    let deleted = up.delete("otter", "").await;
    assert_eq!(deleted["message"], "agent 'otter' is deleted; its work was saved");
    let rescued = &deleted["rescued"];
    let path = std::path::PathBuf::from(rescued["path"].as_str().unwrap());
    let file = std::fs::metadata(&path).unwrap();
    assert_eq!((json!(file.len()), file.permissions().mode() & 0o777), (rescued["bytes"].clone(), 0o600));
    assert_eq!(path.parent().unwrap(), up.program.data_dir().join("rescued"));

    let elsewhere = tempfile::tempdir().unwrap();
    git(elsewhere.path(), &["init", "--quiet"]);
    git(elsewhere.path(), &["fetch", "--quiet", path.to_str().unwrap(), "refs/rescue/work:refs/heads/back"]);
    assert_eq!(json!(git(elsewhere.path(), &["rev-parse", "back"])), rescued["commit"]);
    let files = git(elsewhere.path(), &["ls-tree", "-r", "--name-only", "back"]);
    assert_eq!(
        files.lines().collect::<Vec<_>>(),
        [".gitignore", "committed.txt", "staged.bin", "untracked.txt"]
    );
    assert_eq!(git(elsewhere.path(), &["show", "back:committed.txt"]), "first\nsecond");
    assert_eq!(git(elsewhere.path(), &["show", "back~1:committed.txt"]), "first");

    let history = up.get("/api/v1/agents/otter/history?kind=report").await;
    let messages: Vec<&Value> =
        history["tasks"].as_array().unwrap().iter().map(|entry| &entry["message"]).collect();
    assert!(messages.contains(&&json!("agent 'otter' is being deleted; its work was saved")), "{messages:?}");
}

#[tokio::test]
async fn work_on_a_remote_needs_no_rescue() {
    let up = up().await;
    up.agent("otter").await;
    let (repository, remote) = (up.workspace("otter").join("repo"), tempfile::tempdir().unwrap());
    git(remote.path(), &["init", "--quiet", "--bare"]);
    std::fs::write(repository.join("a.txt"), "a\n").unwrap();
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "a"]);
    git(&repository, &["remote", "add", "origin", remote.path().to_str().unwrap()]);
    git(&repository, &["push", "--quiet", "origin", "HEAD:main"]);
    let deleted = up.delete("otter", "").await;
    assert_eq!(deleted["message"], "agent 'otter' is deleted; it had no unpushed work");
    assert_eq!(deleted["rescued"], Value::Null);
}

#[tokio::test]
async fn work_that_is_to_be_discarded_is_not_even_looked_at() {
    let up = up().await;
    up.agent("otter").await;
    make_work(&up.workspace("otter").join("repo"));
    let deleted = up.delete("otter", "&keep_work=false").await;
    assert_eq!(
        (&deleted["message"], &deleted["rescued"]),
        (&json!("agent 'otter' is deleted"), &Value::Null)
    );
    assert_eq!(up.get("/api/v1/rescues").await["total_count"], 0);
    assert!(!up.program.data_dir().join("rescued").exists());
}

#[tokio::test]
async fn a_stopped_workspace_cannot_be_read_and_is_deleted_all_the_same() {
    let up = up().await;
    up.agent("otter").await;
    make_work(&up.workspace("otter").join("repo"));
    up.change("otter", "stop").await;
    let deleted = up.delete("otter", "").await;
    let message = "agent 'otter' is deleted; its work was not saved: the workspace is not running";
    assert_eq!((&deleted["message"], &deleted["rescued"]), (&json!(message), &Value::Null));
    assert!(!up.workspace("otter").exists());
}

/// A git that never ends once the file is there, in front of the real one.
fn hanging_git(program: &Program) -> (Program, std::path::PathBuf) {
    let (directory, hang) = (program.directory.path().join("bin"), program.directory.path().join("hang"));
    std::fs::create_dir_all(&directory).unwrap();
    let path = std::env::var("PATH").unwrap();
    let text = format!(
        "#!/bin/sh\nwhile [ -e {} ]; do sleep 1; done\nPATH='{path}'\nexec git \"$@\"\n",
        hang.display()
    );
    script(&directory.join("git"), &text);
    (program.clone().variable("PATH", &format!("{}:{path}", directory.display())), hang)
}

#[tokio::test]
async fn a_workspace_that_hangs_is_given_up_and_deleted() {
    let (program, hang) = hanging_git(&Program::without_coder());
    let up = Up::start(&program).await;
    up.agent("otter").await;
    make_work(&up.workspace("otter").join("repo"));
    std::fs::write(&hang, "").unwrap();
    let began = std::time::Instant::now();
    let deleted = up.delete("otter", "").await;
    let took = began.elapsed();
    assert!((LIMIT..LIMIT * 4).contains(&took), "{took:?}");
    let message = "agent 'otter' is deleted; its work was not saved: the workspace timed out";
    assert_eq!((&deleted["message"], &deleted["rescued"]), (&json!(message), &Value::Null));
    let left: Vec<_> = std::fs::read_dir(program.data_dir().join("rescued")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_bundle_larger_than_one_piece_arrives_whole() {
    let up = up().await;
    up.agent("otter").await;
    let repository = up.workspace("otter").join("repo");
    let noise: Vec<u8> = std::iter::successors(Some(1u64), |n| {
        Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
    })
    .flat_map(|n| (n >> 24).to_le_bytes()[..4].to_vec())
    .take(9_500_000)
    .collect();
    std::fs::write(repository.join("large.bin"), &noise).unwrap();
    let rescued = up.delete("otter", "").await["rescued"].clone();
    assert!(rescued["bytes"].as_u64().unwrap() > 9_000_000, "{rescued}");
    let elsewhere = tempfile::tempdir().unwrap();
    git(elsewhere.path(), &["init", "--quiet"]);
    git(
        elsewhere.path(),
        &["fetch", "--quiet", rescued["path"].as_str().unwrap(), "refs/rescue/work:refs/heads/back"],
    );
    git(elsewhere.path(), &["checkout", "--quiet", "back"]);
    assert!(std::fs::read(elsewhere.path().join("large.bin")).unwrap() == noise);
}
