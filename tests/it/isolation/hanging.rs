//! Agents that make the server wait: by mounts that never answer, links, leases and locked memory. Each holds up only
//! itself.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::harness::{Program, Up, as_each_user, eventually, is_over, skipped, trusted_directory};

/// More than a small machine has threads to serve with.
const N_TERMINALS: usize = 8;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
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

/// See the file itself.
const LOCK_MEMORY: &str = include_str!("lock_memory.pl");
/// Leaves the run that started it: a run ends what belongs to it by reading the environment of processes.
const LOCK_MEMORY_APART: &str = "env -i PATH=\"$PATH\" setsid sh -c '(exec unshare --user --map-root-user --mount perl lock_memory.pl {}) &' \
     </dev/null >/dev/null 2>&1; echo left";

/// A process whose memory map is locked until this is dropped.
struct LockedMemory {
    connection: u32,
    /// The process itself, where it is no agent's.
    _child: Option<Child>,
}

impl LockedMemory {
    /// In an agent's workspace, where the agent could do it as well.
    async fn of_agent(up: &Up, name: &str, mode: &str) -> Option<Self> {
        let directory = up.workspace(name).join("repo");
        std::fs::write(directory.join("lock_memory.pl"), LOCK_MEMORY).unwrap();
        let output = up.exec(name, &LOCK_MEMORY_APART.replace("{}", mode)).await;
        assert_eq!(output.stdout, "left\n");
        Self::begin(&directory, None).await
    }

    async fn of_user(directory: &Path) -> Option<Self> {
        std::fs::write(directory.join("lock_memory.pl"), LOCK_MEMORY).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "perl", "lock_memory.pl"]);
        command.current_dir(directory).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        Self::begin(directory, Some(command.spawn().unwrap())).await
    }

    async fn begin(directory: &Path, child: Option<Child>) -> Option<Self> {
        if !rustix::process::getuid().is_root() || !Path::new("/dev/fuse").exists() {
            skipped("a process with locked memory: this needs root and /dev/fuse");
            return None;
        }
        std::fs::write(directory.join("go"), "").unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
        eventually("the file system is mounted", async || read("device").is_some()).await;
        let device: u64 = read("device").unwrap().trim().parse().unwrap();
        let locked = Self { connection: rustix::fs::minor(device), _child: child };
        eventually("the memory is locked", async || read("locked").is_some()).await;
        Some(locked)
    }
}

/// Aborts the connection of the file system: what waits for it goes on, and can be killed again.
impl Drop for LockedMemory {
    fn drop(&mut self) {
        let connections = "/sys/fs/fuse/connections";
        let abort = format!(
            "mount -t fusectl fusectl {connections} 2>/dev/null; echo 1 >{connections}/{}/abort",
            self.connection
        );
        // The agent may have ended, and its file system with it.
        let _gone = std::process::Command::new("unshare").args(["--mount", "sh", "-c", &abort]).output();
    }
}

async fn ends(up: &Up, name: &str) {
    for transition in ["stop", "delete"] {
        let built = timeout(ANSWER_LIMIT, up.build(name, transition, is_over)).await;
        let built = built.unwrap_or_else(|_| panic!("the {transition} of {name} does not end"));
        assert_eq!(built.latest_build.job.status, "succeeded", "{transition} of {name}");
    }
}

#[tokio::test]
async fn an_agent_that_locks_its_memory_holds_up_no_stop_and_no_delete() {
    let up = Up::start(&Program::without_coder()).await;
    for name in ["mallory", "alice"] {
        up.agent(name).await;
    }
    let Some(_locked) = LockedMemory::of_agent(&up, "mallory", "").await else { return };
    ends(&up, "alice").await;
    ends(&up, "mallory").await;
}

#[tokio::test]
async fn a_process_of_the_user_that_locks_its_memory_holds_up_no_stop_and_no_delete() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("alice").await;
    let directory = tempfile::tempdir().unwrap();
    let Some(_locked) = LockedMemory::of_user(directory.path()).await else { return };
    ends(&up, "alice").await;
}

#[tokio::test]
async fn a_stop_that_fails_because_an_agent_cannot_be_killed_says_how_to_free_it() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("mallory").await;
    let Some(locked) = LockedMemory::of_agent(&up, "mallory", "for-ever").await else { return };
    let stopped = timeout(ANSWER_LIMIT, up.build("mallory", "stop", is_over)).await;
    let job = stopped.expect("the stop ends").latest_build.job;
    assert_eq!(job.status, "failed");
    let error = job.error.unwrap_or_default();
    let named = "some processes of the workspace could not be ended: processes that cannot be killed: ";
    assert!(error.starts_with(named), "{error}");
    let connection = locked.connection;
    let remedy = format!("; as root, write 1 to /sys/fs/fuse/connections/{connection}/abort, then try again");
    assert!(error.ends_with(&remedy), "{error}");
    drop(locked);
    ends(&up, "mallory").await;
}
