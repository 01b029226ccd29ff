//! Agents that make the server wait: by mounts that never answer, links and leases. Each holds up only itself.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fleet_mcp::local::LocalLimits;
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::harness::{Program, Up, as_each_user, eventually, is_over, skipped, tenth, trusted_directory};

/// More than a small machine has threads to serve with.
const N_TERMINALS: usize = 8;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const LOG_PAUSE: Duration = Duration::from_millis(250);
const MOUNT: &str = r#"
exec 3<> /dev/fuse
mount -i -n -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 fuse "$1" || exit 1
echo ready
exec sleep 600
"#;

/// A FUSE file system that answers nothing, in a mount namespace of its own. What waits for it fails at its end.
struct HangingMount {
    _server: Child,
    link: PathBuf,
}

impl HangingMount {
    async fn make(directory: &Path) -> Option<Self> {
        let path = directory.join("hanging");
        std::fs::create_dir(&path).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", MOUNT, "sh"]).arg(&path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut server = command.spawn().unwrap();
        let line = BufReader::new(server.stdout.take().unwrap()).lines().next_line().await.unwrap();
        if line.as_deref() != Some("ready") {
            skipped("a mount that never answers: this needs root and /dev/fuse");
            return None;
        }
        let root = PathBuf::from(format!("/proc/{}/root", server.id().unwrap()));
        let link = root.join(path.strip_prefix("/").unwrap()).join("inside");
        Some(Self { _server: server, link })
    }
}

fn here(name: &str) -> serde_json::Value {
    json!({ "project": "here", "spec": "commit of the agent", "name": name })
}

/// Commits in the agent's own repository; says which commit it is.
const COMMIT: &str =
    "git -c user.name=A -c user.email=a@b commit --quiet --allow-empty -m more && git rev-parse HEAD";

async fn commit(up: &Up, name: &str, script: &str) -> String {
    let output = timeout(ANSWER_LIMIT, up.exec(name, script)).await.expect("the server answers");
    let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(commit.len(), 40, "{output:?}");
    commit
}

#[tokio::test]
async fn a_mount_that_never_answers_stops_no_other_agent_no_stop_and_no_delete() {
    let program = Program::without_coder();
    let Some(mount) = HangingMount::make(program.directory.path()).await else { return };
    let caller = program.repository();
    let up = Up::start(&program.within(&caller)).await;
    for name in ["mallory", "alice"] {
        up.agent_with(here(name)).await;
    }
    let swap = format!("cd .. && mv repo away && ln -s '{}' repo && echo swapped", mount.link.display());
    assert_eq!(up.exec("mallory", &swap).await.stdout, "swapped\n");
    let terminals = (0..N_TERMINALS).map(|_| timeout(Duration::from_secs(2), up.try_exec("mallory", "true")));
    join_all(terminals).await;
    let last = commit(&up, "alice", COMMIT).await;
    eventually("the other agent's branch is published", async || {
        program.git(&caller, &["rev-parse", "fleet/alice"]) == last
    })
    .await;
    for transition in ["stop", "delete"] {
        let built = timeout(ANSWER_LIMIT, up.build("mallory", transition, is_over)).await;
        assert_eq!(built.expect("the build ends").latest_build.job.status, "succeeded", "{transition}");
    }
    assert!(!up.workspace("mallory").exists());
}

#[tokio::test]
async fn nothing_is_published_of_a_directory_that_the_repository_leads_to() {
    as_each_user(async |program| {
        let caller = program.repository();
        let up = Up::start(&program.within(&caller)).await;
        up.agent_with(here("mallory")).await;
        let tip = || program.git(&caller, &["rev-parse", "fleet/mallory"]);
        let own = program.git(&up.workspace("mallory").join("repo"), &["rev-parse", "HEAD"]);
        eventually("the agent's branch is published", async || tip() == own).await;
        let swap = "cp -r . ../elsewhere; cd ..; mv repo away; ln -s elsewhere repo; git -C elsewhere rev-parse HEAD";
        assert_eq!(commit(&up, "mallory", swap).await, own);
        eventually("the build's log says why", async || {
            up.build_log("mallory").await.contains("/mallory/repo: Not a directory")
        })
        .await;
        // A look that began before the swap is over by now, and could have read either directory.
        let elsewhere = format!("cd \"$FLEET_AGENT_DIR/../elsewhere\"; {COMMIT}");
        let foreign = commit(&up, "mallory", &elsewhere).await;
        up.build("mallory", "stop", is_over).await;
        assert_eq!(tip(), own, "{foreign}");
    })
    .await;
}

/// Moves the branch to a new commit, behind a FIFO in place of the list of shallow commits.
const MOVE_BEHIND_SHALLOW: &str = "commit=$(git -c user.name=A -c user.email=a@b commit-tree -p HEAD -m more 'HEAD^{tree}') \
     && mkfifo .git/shallow && echo \"$commit\" > \".git/$(git symbolic-ref HEAD)\" && echo moved";
/// Moves the branch to a new commit with a file whose object is a FIFO.
const MOVE_TO_BLOB: &str = "blob=$(echo more | git hash-object -w --stdin) && tree=$(printf '100644 blob %s\\tmore\\n' \"$blob\" | git mktree) \
     && commit=$(git -c user.name=A -c user.email=a@b commit-tree -p HEAD -m more \"$tree\") \
     && object=\".git/objects/$(echo \"$blob\" | cut -c1-2)/$(echo \"$blob\" | cut -c3-)\" && rm -f \"$object\" \
     && mkfifo \"$object\" && echo \"$commit\" > \".git/$(git symbolic-ref HEAD)\" && echo moved";

/// Moves the branch, waits until the log says that git did not respond within the limit, and deletes the agent.
async fn deletes_behind_fifo(moves: &str, reading: &str, limit: impl Fn(LocalLimits) -> Duration) {
    let program = Program::without_coder().hurried();
    let up = Up::start(&program.within(&program.repository())).await;
    let limits = LocalLimits::NORMAL.divided_by(tenth());
    let reason = format!("read the agent's {reading}: no response within {} s", limit(limits).as_secs_f64());
    up.agent_with(here("mallory")).await;
    assert_eq!(up.exec("mallory", moves).await.stdout, "moved\n");
    eventually("the build's log gives the reason", async || {
        // The embedded Coder limits the requests per minute.
        sleep(LOG_PAUSE).await;
        up.build_log("mallory").await.contains(&reason)
    })
    .await;
    let deleted = timeout(ANSWER_LIMIT, up.build("mallory", "delete", is_over)).await;
    assert_eq!(deleted.expect("the build ends").latest_build.job.status, "succeeded");
    // Without a limit for a blocked git, the limit of the whole transfer would have ended the last one.
    let whole = format!("did not respond within {} s", limits.publish_last.as_secs());
    assert!(!program.log().contains(&whole), "{}", program.log());
}

#[tokio::test]
async fn a_fifo_as_the_list_of_shallow_commits_holds_up_no_delete() {
    deletes_behind_fifo(MOVE_BEHIND_SHALLOW, "branch", |limits| limits.publish_tip).await;
}

#[tokio::test]
async fn a_fifo_as_an_object_holds_up_no_delete() {
    deletes_behind_fifo(MOVE_TO_BLOB, "commits", |limits| limits.publish_silence).await;
}

/// Holds a lease on a file and does not give it back when another process wants to open the file.
const LEASE: &str = "open F, '+<', $ARGV[0]; $SIG{IO} = 'IGNORE'; fcntl(F, 1024, 1) or exit 3; $| = 1; print \"held\\n\"; \
                     sleep 600";

#[tokio::test]
async fn a_lease_on_the_log_of_an_agent_does_not_hold_its_next_start_up() {
    let program = Program::without_coder();
    let up = Up::start(&program).await;
    up.agent("mallory").await;
    up.build("mallory", "stop", is_over).await;
    let log = trusted_directory(&program.data_dir(), "mallory").join("agent.log");
    let mut command = Command::new("perl");
    command.args(["-e", LEASE]).arg(&log).stdout(Stdio::piped()).kill_on_drop(true);
    let Ok(mut holder) = command.spawn() else { return skipped("a lease on a file: this needs perl") };
    let line = BufReader::new(holder.stdout.take().unwrap()).lines().next_line().await.unwrap();
    assert_eq!(line.as_deref(), Some("held"));
    let started = timeout(ANSWER_LIMIT, up.build("mallory", "start", is_over)).await;
    assert_eq!(started.expect("the agent starts").latest_build.job.status, "succeeded");
}
