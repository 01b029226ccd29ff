//! Locks on refs of the caller's repository that a killed git has left: agents are made, published and deleted all the same.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::harness::{Program, Up, eventually};

const REFS: [&str; 3] = ["heads/fleet/otter", "fleet/agents/otter", "fleet/published/otter"];

fn locks(up: &Up) -> [PathBuf; 3] {
    let refs = up.program.repository().join(".git/refs");
    REFS.map(|name| refs.join(format!("{name}.lock")))
}

fn leave_locks(up: &Up) {
    for lock in locks(up) {
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(lock, "").unwrap();
    }
}

/// A git that moves the branch holds locks of its own for a moment.
async fn freed(up: &Up) {
    eventually("no lock is left", async || locks(up).iter().all(|lock| !lock.exists())).await;
}

#[tokio::test]
async fn locks_that_a_killed_git_has_left_fail_no_create_and_no_delete() {
    let up = Up::start_here(&Program::without_coder().hurried()).await;
    leave_locks(&up);
    up.agent_with(json!({ "project": "here", "spec": "say hello", "name": "otter" })).await;
    freed(&up).await;
    leave_locks(&up);
    let clone = up.workspace("otter").join("repo");
    up.program.git(&clone, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let work = up.program.git(&clone, &["rev-parse", "HEAD"]);
    eventually("the commit is published", async || {
        up.program.git(&up.program.repository(), &["rev-parse", "fleet/otter"]) == work
    })
    .await;
    freed(&up).await;
    leave_locks(&up);
    up.delete("otter", "").await;
    assert_eq!(up.program.git(&up.program.repository(), &["for-each-ref", "refs/fleet"]), "");
}

/// A live git would hold it for seconds at most.
#[tokio::test]
async fn an_old_lock_of_all_packed_refs_fails_no_delete() {
    let up = Up::start_here(&Program::without_coder()).await;
    up.agent_with(json!({ "project": "here", "spec": "say hello", "name": "otter" })).await;
    let repository = up.program.repository();
    up.program.git(&repository, &["pack-refs", "--all"]);
    let lock = repository.join(".git/packed-refs.lock");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::create(&lock).unwrap().set_modified(hour_ago).unwrap();
    up.delete("otter", "").await;
    assert_eq!(
        (up.program.git(&repository, &["for-each-ref", "refs/fleet"]).as_str(), lock.exists()),
        ("", false)
    );
}
