//! Processes that lock their own memory map, so that every reader of it waits. Each holds up only itself.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fleet_mcp::coder::exec::{Command as Run, Exit, RunAddress, RunEnd, RunState};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use uuid::Uuid;

use crate::harness::{Program, Up, eventually, is_over, skipped};

const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// See the file itself.
const LOCK_MEMORY: &str = include_str!("lock_memory.pl");
const OWN_USERS: [&str; 3] = ["--user", "--map-root-user", "--mount"];
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
        if !can_lock_memory().await {
            return None;
        }
        let directory = up.workspace(name).join("repo");
        std::fs::write(directory.join("lock_memory.pl"), LOCK_MEMORY).unwrap();
        let output = up.exec(name, &LOCK_MEMORY_APART.replace("{}", mode)).await;
        assert_eq!(output.stdout, "left\n");
        Some(Self::begin(&directory, None).await)
    }

    async fn of_user(directory: &Path) -> Option<Self> {
        if !can_lock_memory().await {
            return None;
        }
        std::fs::write(directory.join("lock_memory.pl"), LOCK_MEMORY).unwrap();
        let mut command = Command::new("unshare");
        command.args(OWN_USERS).args(["perl", "lock_memory.pl"]);
        command.current_dir(directory).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        Some(Self::begin(directory, Some(command.spawn().unwrap())).await)
    }

    async fn begin(directory: &Path, child: Option<Child>) -> Self {
        std::fs::write(directory.join("go"), "").unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
        eventually("the file system is mounted", async || read("device").is_some()).await;
        let device: u64 = read("device").unwrap().trim().parse().unwrap();
        let locked = Self { connection: rustix::fs::minor(device), _child: child };
        eventually("the memory is locked", async || read("locked").is_some()).await;
        locked
    }
}

/// Whether this machine lets a process lock its memory; says so where it does not. Root frees it afterwards.
async fn can_lock_memory() -> bool {
    let open = "open my $fuse, '+<', '/dev/fuse' or exit 1";
    let mut probe = Command::new("unshare");
    probe.args(OWN_USERS).args(["perl", "-MPOSIX", "-e", open]).stdin(Stdio::null()).stderr(Stdio::null());
    let is_root = rustix::process::getuid().is_root();
    let can = is_root && probe.status().await.is_ok_and(|status| status.success());
    if !can {
        skipped(
            "a process with locked memory: this needs root, /dev/fuse, perl, unshare and user namespaces",
        );
    }
    can
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
    let named = "some processes of the workspace could not be terminated: processes cannot be killed: ";
    assert!(error.starts_with(named), "{error}");
    let connection = locked.connection;
    let remedy = format!("; as root, write 1 to /sys/fs/fuse/connections/{connection}/abort, then try again");
    assert!(error.ends_with(&remedy), "{error}");
    drop(locked);
    ends(&up, "mallory").await;
}

#[tokio::test]
async fn a_process_that_locks_its_memory_holds_up_no_cancel_no_time_limit_and_no_clearing_up() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("mallory").await;
    let Some(_locked) = LockedMemory::of_agent(&up, "mallory", "").await else { return };
    let (coder, agent) = up.inside("mallory").await;
    let at = RunAddress { agent, run: Uuid::now_v7(), container: None };
    coder.run_start(agent, at.run, &Run::new(["sleep", "600"])).await.unwrap();
    let canceled = timeout(ANSWER_LIMIT, coder.run_cancel(&at)).await.expect("the cancel ends");
    assert_eq!(canceled.unwrap(), RunState::Ended(RunEnd::Canceled));

    // Neither a child of the command nor in its group.
    let escaped = "setsid sh -c 'sleep 601 >/dev/null 2>&1 & echo $!'; trap '' TERM; sleep 602";
    let run = Run { timeout: Duration::from_secs(2), ..Run::new(["sh", "-c", escaped]) };
    let timed_out = timeout(ANSWER_LIMIT, coder.exec(agent, &run)).await.expect("the run ends").unwrap();
    assert_eq!(timed_out.exit, Exit::TimedOut);
    let pid = String::from_utf8_lossy(&timed_out.stdout).trim().to_owned();
    let is_gone = format!("kill -0 {pid} 2>/dev/null || echo gone");
    eventually("what left the run has ended too", async || {
        up.exec("mallory", &is_gone).await.stdout == "gone\n"
    })
    .await;
}
