//! What runs in a workspace stays in it: processes that hide where they come from end with it, and see no others.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use fleet_mcp::coder::{Deleted, PtyOptions};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::harness::{
    Program, Up, all_processes_under, as_each_user, client, eventually, kill, parent, processes_under,
    runners_under, skipped,
};

/// A process with a cleared environment, a session of its own and no living parent of the workspace.
struct Escaped {
    /// A number that only its command line has.
    mark: String,
}

impl Escaped {
    async fn from(up: &Up, agent: &str) -> Self {
        let escaped = Self { mark: format!("4{}", Uuid::new_v4().as_u128() % 1_000_000_000_000) };
        let script = format!(
            "env -i PATH=\"$PATH\" setsid sh -c '(exec sleep {}) &' </dev/null >/dev/null 2>&1; echo left",
            escaped.mark
        );
        assert_eq!(String::from_utf8_lossy(&up.exec(agent, &script).await.stdout), "left\n");
        let runs = || escaped.pids().len() == 1;
        eventually("the process runs by itself", async || runs()).await;
        escaped
    }

    fn pids(&self) -> Vec<u32> {
        let carries = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).eq([&b"sleep"[..], self.mark.as_bytes(), b""])
        };
        all_processes().into_iter().filter(carries).collect()
    }
}

impl Drop for Escaped {
    fn drop(&mut self) {
        self.pids().into_iter().for_each(kill);
    }
}

fn all_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[tokio::test]
async fn a_process_that_hides_its_origin_ends_with_a_restart_a_stop_and_a_delete() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let escaped = Escaped::from(&up, "mallory").await;
        up.change("mallory", "restart").await;
        assert_eq!(escaped.pids(), Vec::<u32>::new(), "after a restart");

        up.provisioned("mallory").await;
        let escaped = Escaped::from(&up, "mallory").await;
        up.change("mallory", "stop").await;
        assert_eq!(escaped.pids(), Vec::<u32>::new(), "after a stop");

        up.change("mallory", "start").await;
        up.provisioned("mallory").await;
        let escaped = Escaped::from(&up, "mallory").await;
        up.delete("mallory", "").await;
        assert_eq!(escaped.pids(), Vec::<u32>::new(), "after a delete");
        assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new());
    })
    .await;
}

#[tokio::test]
async fn a_process_that_hides_its_origin_is_kept_by_a_killed_server_and_ended_by_the_next_one() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let escaped = Escaped::from(&up, "mallory").await;
        let program = up.killed().await;
        let up = Up::start(&program).await;
        up.provisioned("mallory").await;
        assert_eq!(escaped.pids().len(), 1);
        // A terminal of the next server joins the workspace that the last one started.
        let seen =
            up.exec("mallory", &format!("grep -als {} /proc/[0-9]*/cmdline | wc -l", escaped.mark)).await;
        assert_ne!(String::from_utf8_lossy(&seen.stdout).trim(), "0");
        up.change("mallory", "stop").await;
        assert_eq!(escaped.pids(), Vec::<u32>::new());
    })
    .await;
}

#[tokio::test]
async fn all_processes_of_a_workspace_end_when_the_process_outside_is_killed() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let escaped = Escaped::from(&up, "mallory").await;
        let of_workspace = all_processes_under(program.directory.path());
        let outside = of_workspace.iter().filter(|pid| words(**pid).contains(" --own-processes "));
        let outside: Vec<u32> = outside.copied().collect();
        assert_eq!(outside.len(), 1);
        outside.into_iter().for_each(kill);
        eventually("no process of the workspace is left", async || {
            let are_gone = of_workspace.iter().all(|pid| words(*pid).is_empty());
            are_gone && escaped.pids().is_empty()
        })
        .await;
    })
    .await;
}

/// In a namespace of its own, since an init that starts all the same signals every process that it sees.
#[test]
fn an_init_that_is_not_the_first_process_of_its_namespace_is_refused() {
    let program = env!("CARGO_BIN_EXE_fleet-mcp");
    let script = format!("{program} enclose --init 0 -- true; echo \"survived with $?\"");
    let mut command = std::process::Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        &script,
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The pipe by which an init notices the end of the process outside.
    let _tether = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if told.contains("unshare:") {
        return skipped(&format!("an init in the wrong place: {told}"));
    }
    let reason = "cannot supervise the command: this is not the first process of a PID namespace";
    assert!(told.contains(reason), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "survived with 125\n");
}

fn words(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Whether a process of the workspace's user, with the rights of a process inside, can read the memory of another one.
fn can_trace(user: &Metadata, outside: u32, pid: u32) -> bool {
    let mut command = std::process::Command::new("nsenter");
    command
        .uid(user.uid())
        .gid(user.gid())
        .args(["--preserve-credentials", &format!("--user=/proc/{outside}/ns/user")]);
    command.args(["cat", &format!("/proc/{pid}/environ")]).output().unwrap().status.success()
}

/// The process that joins shares its memory with a child inside while it starts that child.
#[tokio::test]
async fn the_process_that_joins_a_workspace_cannot_be_traced_from_inside() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let mark = format!("5{}", Uuid::new_v4().as_u128() % 1_000_000_000_000);
        let mut socket = terminal(&up, "mallory", &format!("echo ready; exec sleep {mark}")).await;
        assert_eq!(line(&mut socket).await, "ready\r\n");
        let find = |line: &str| all_processes().into_iter().find(|pid| words(*pid).starts_with(line));
        eventually("the command runs", async || find(&format!("sleep {mark} ")).is_some()).await;
        let command = find(&format!("sleep {mark} ")).unwrap();
        let joiner = parent(command).unwrap();
        assert!(words(joiner).contains(" --join "), "{}", words(joiner));
        let of_workspace = all_processes_under(program.directory.path());
        let outside = of_workspace.into_iter().find(|pid| words(*pid).contains(" --own-processes ")).unwrap();
        let user = program.data_dir().metadata().unwrap();
        assert_eq!([command, joiner].map(|pid| can_trace(&user, outside, pid)), [true, false]);
    })
    .await;
}

/// The command lines of all processes that can be seen, the first process before the others.
const LIST: &str =
    r#"for line in /proc/1/cmdline /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$line"; echo; done 2>/dev/null"#;

/// Processes come and go while the list is made, so the test looks for known ones that stay.
#[tokio::test]
async fn a_workspace_sees_no_process_but_its_own() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        up.agent("victim").await;
        let own = Escaped::from(&up, "mallory").await;
        let foreign = Escaped::from(&up, "victim").await;
        let server = words(up.child.id().unwrap());
        assert!(server.ends_with(" up --port 0 "), "{server}");

        let seen = String::from_utf8_lossy(&up.exec("mallory", LIST).await.stdout).into_owned();
        let first = seen.lines().next().unwrap_or_default();
        assert!(first.starts_with("/proc/self/exe enclose --init "), "{seen}");
        let is_seen = |words: &str| seen.lines().any(|line| line == words);
        let lines = [format!("sleep {} ", own.mark), format!("sleep {} ", foreign.mark), server];
        assert_eq!(lines.map(|line| is_seen(&line)), [true, false, false], "{seen}");
    })
    .await;
}

/// Tells its pid, group, session and the terminal's foreground group, and then waits for an interrupt.
const LEAD: &str = "trap 'echo interrupted; exit' INT; read -r line </proc/$$/stat; set -- ${line##*) }; \
                    echo $$ $3 $4 $6; while :; do sleep 0.1; done";

#[tokio::test]
async fn a_terminal_in_a_workspace_has_a_session_of_its_own_and_takes_interrupts() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let mut socket = terminal(&up, "mallory", LEAD).await;
        let printed = line(&mut socket).await;
        let ids: Vec<u32> = printed.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(ids, [ids[0]; 4]);
        let interrupt = json!({ "data": "\u{3}" }).to_string().into_bytes();
        socket.send(Message::Binary(interrupt.into())).await.unwrap();
        let mut printed = String::new();
        while let Some(more) = output(&mut socket).await {
            printed.push_str(&more);
        }
        assert_eq!(printed, "^Cinterrupted\r\n");
    })
    .await;
}

/// The bits of HUP, INT, QUIT, USR1 and TERM in a mask of signals.
const ORDERS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 9 | 1 << 14;

fn ignored_orders(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & ORDERS
}

#[tokio::test]
async fn no_process_of_a_workspace_ignores_what_the_server_was_started_to_ignore() {
    let program = Program::without_coder().ignoring("HUP INT QUIT USR1 TERM");
    let up = Up::start(&program).await;
    let (request, runs) =
        (json!({ "project": "setup", "spec": "sleep 600", "name": "one" }), "the engine runs");
    up.post("/api/v1/agents", &request).await;
    let is_engine = |pid: &u32| words(*pid).contains(" demo-engine");
    let engine = || processes_under(program.directory.path()).into_iter().find(is_engine);
    eventually(runs, async || engine().is_some()).await;
    let mut seen = Vec::new();
    for pid in runners_under(program.directory.path()).into_iter().chain(engine()) {
        seen.push(ignored_orders(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap()));
    }
    let mut socket = terminal(&up, "one", "grep SigIgn /proc/self/status").await;
    seen.push(ignored_orders(&line(&mut socket).await));
    seen.push(ignored_orders(&String::from_utf8_lossy(
        &up.exec("one", "cat /proc/self/status").await.stdout,
    )));
    assert_eq!(seen, [0; 4], "the runner, its engine, a terminal and a run");
}

type Socket = fleet_mcp::coder::WebSocket;

async fn terminal(up: &Up, name: &str, command: &str) -> Socket {
    let file = std::fs::read_to_string(up.program.data_dir().join("coder.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let coder = client(file["url"].as_str().unwrap(), &up.coder_token());
    let mut agent = None;
    eventually("the build is over", async || {
        let workspace = coder.workspace_by_name("me", name, Deleted::Exclude).await.unwrap();
        agent = workspace.latest_build.resources.first().map(|resource| resource.agents[0].id);
        agent.is_some()
    })
    .await;
    let command = command.to_owned();
    let options = PtyOptions { reconnect: Uuid::new_v4(), width: 80, height: 24, command, container: None };
    coder.pty_connect(agent.unwrap(), &options).await.unwrap()
}

/// The first line, which may come in pieces.
async fn line(socket: &mut Socket) -> String {
    let mut printed = String::new();
    while !printed.contains('\n') {
        printed.push_str(&output(socket).await.unwrap());
    }
    printed
}

async fn output(socket: &mut Socket) -> Option<String> {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Binary(bytes) = message {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    None
}
