//! Locks of git that a kill left behind: those of a run that is gone are taken away, all others stay.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::workspace::{Runner, Workspace};
use crate::harness::{eventually, kill};

/// Lets a run go as far as its first commit, puts locks there as a killed git would leave them, and kills all.
async fn leave_locks(workspace: &Workspace, names: &[&str]) {
    let runner = workspace.start().await;
    runner.task("first", "commit first\nsay after it\nsleep 600").await;
    // Git itself writes locks until its commit is over.
    runner.says("after it").await;
    assert_eq!(workspace.commits(), ["first"]);
    put(workspace, names);
    runner.kill().await;
    workspace.processes_of_runs().into_iter().for_each(kill);
}

fn put(workspace: &Workspace, names: &[&str]) {
    names.iter().for_each(|name| std::fs::write(workspace.repo().join(name), "").unwrap());
}

fn left<'a>(workspace: &Workspace, names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().filter(|name| workspace.repo().join(name).exists()).collect()
}

async fn outcome(runner: &Runner, message: &str) -> Value {
    runner.ask(message).await.0["outcome"].clone()
}

#[tokio::test]
async fn locks_of_a_killed_run_are_taken_away_and_work_goes_on() {
    let workspace = Workspace::new();
    let names = [".git/HEAD.lock", ".git/index.lock", ".git/refs/heads/main.lock"];
    leave_locks(&workspace, &names).await;
    let runner = workspace.start().await;
    assert_eq!(left(&workspace, &names), Vec::<&str>::new());
    assert_eq!(outcome(&runner, "commit second").await, json!("complete"));
    assert_eq!(workspace.commits(), ["first", "second"]);
}

#[tokio::test]
async fn lock_older_than_the_run_is_kept() {
    let workspace = Workspace::new();
    put(&workspace, &[".git/packed-refs.lock"]);
    // The clock of files may run a moment behind.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let lock = std::fs::File::options().write(true).open(workspace.repo().join(".git/packed-refs.lock"));
    lock.unwrap().set_modified(old).unwrap();
    let names = [".git/HEAD.lock", ".git/packed-refs.lock"];
    leave_locks(&workspace, &names[..1]).await;
    let _runner = workspace.start().await;
    assert_eq!(left(&workspace, &names), [".git/packed-refs.lock"]);
}

#[tokio::test]
async fn a_lock_stays_while_any_git_works_in_the_repository() {
    let workspace = Workspace::new();
    let mut git = Command::new("git");
    git.current_dir(workspace.repo()).args(["cat-file", "--batch"]).stdin(Stdio::piped());
    let mut living = git.stdout(Stdio::null()).spawn().unwrap();
    leave_locks(&workspace, &[".git/index.lock"]).await;
    let runner = workspace.start().await;
    assert_eq!(left(&workspace, &[".git/index.lock"]), [".git/index.lock"]);
    drop(runner);
    living.kill().unwrap();
    living.wait().unwrap();
}

#[tokio::test]
async fn of_a_shared_repository_only_the_own_branch_is_freed() {
    let workspace = Workspace::new();
    workspace.git(&["worktree", "add", "--quiet", "-b", "side", "../side"]);
    let names = [
        ".git/worktrees/side/HEAD.lock",
        ".git/refs/heads/side.lock",
        ".git/refs/heads/main.lock",
        ".git/HEAD.lock",
    ];
    let mut command = workspace.command(&["agent"]);
    command.current_dir(workspace.repo().join("../side"));
    let runner = workspace.started(command).await;
    runner.task("first", "sleep 600").await;
    eventually("it runs", async || !workspace.processes_of_runs().is_empty()).await;
    put(&workspace, &names);
    runner.escape().await;
    runner.stable().await;
    assert_eq!(left(&workspace, &names), names[2..]);
}
