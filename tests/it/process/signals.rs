//! Signals that ask a server to stop: while it starts, while it serves, and those it was started to ignore.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::Signal;
use tokio::process::{Child, Command};

use super::creation;
use crate::harness::{CoderStub, Pace, Program, eventually, exit_code, send, server_file, stub};

async fn scene() -> (CoderStub, Program) {
    let coder = stub(Pace::PerRead).await;
    let program = Program::on(&coder);
    (coder, program)
}

#[tokio::test]
async fn a_server_asked_to_stop_while_it_starts_stops_cleanly() {
    let (_coder, program) = scene().await;
    let mut child = program.spawn();
    eventually("the server opens its store", async || program.data_dir().join("fleet.db").exists()).await;
    send(&child, Signal::TERM);
    assert_eq!(exit_code(&mut child).await, Some(0));
    assert_eq!(server_file(&program.data_dir()), None);
}

/// As under `fleet-mcp up 2>&1 | head`: from then on every line of its log fails.
#[tokio::test]
async fn a_server_whose_log_has_no_reader_any_more_works_and_stops_when_asked() {
    let (_coder, program) = scene().await;
    let mut command = Command::from(program.command(&["serve", "--port", "0"]));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    drop(child.stderr.take());
    eventually("it serves", async || server_file(&program.data_dir()).is_some()).await;
    program.json(&[&creation("x", "one")[..], &["--no-wait"]].concat()).await;
    eventually("the create has ended", async || {
        program.json(&["--json", "operations", "list"]).await["operations"]
            .as_array()
            .is_some_and(Vec::is_empty)
    })
    .await;
    send(&child, Signal::TERM);
    assert_eq!(exit_code(&mut child).await, Some(0));
}

#[tokio::test]
async fn a_server_started_to_ignore_hang_ups_goes_on() {
    let (_coder, program) = scene().await;
    let program = program.ignoring("HUP");
    let server = program.serve().await;
    send(&server.child, Signal::HUP);
    program.json(&["--json", "status"]).await;
    assert_eq!(server.terminate().await, Some(0));
    assert!(!program.log().contains("the terminal was closed"), "{}", program.log());
}

/// What serves, and the file that is there while it does.
fn servers(coder: &CoderStub) -> Vec<(Program, Vec<&'static str>, PathBuf)> {
    let in_data = |program: Program, command: &'static str, name: &str| {
        let file = program.data_dir().join(name);
        (program, vec![command, "--port", "0"], file)
    };
    let workspace = Program::without_coder();
    let (socket, folder) = (workspace.directory.path().join("agent.sock"), workspace.data_dir());
    let agent = workspace
        .variable("FLEET_ENGINE", "demo")
        .variable("FLEET_AGENT_DIR", &folder.display().to_string())
        .variable("FLEET_AGENT_SOCKET", &socket.display().to_string());
    vec![
        in_data(Program::on(coder), "serve", "server.json"),
        in_data(Program::without_coder(), "up", "server.json"),
        in_data(Program::without_coder(), "local-coder", "coder.json"),
        (agent, vec!["agent"], socket),
    ]
}

fn spawn(program: &Program, arguments: &[&str]) -> Child {
    let log = std::fs::File::create(program.directory.path().join("server.log")).unwrap();
    let mut command = Command::from(program.command(arguments));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn().unwrap()
}

#[tokio::test]
async fn a_hangup_stops_every_serving_program_cleanly() {
    let (coder, _) = scene().await;
    for (program, arguments, file) in servers(&coder) {
        let mut child = spawn(&program, &arguments);
        eventually("it serves", async || file.exists()).await;
        send(&child, Signal::HUP);
        let ended = (exit_code(&mut child).await, file.exists());
        assert_eq!(ended, (Some(0), false), "{arguments:?}: {}", program.log());
    }
}

#[tokio::test]
async fn a_signal_that_is_repeated_ends_a_start_that_hangs() {
    let (_coder, program) = scene().await;
    assert_eq!(program.serve().await.terminate().await, Some(0));
    let database = program.data_dir().join("fleet.db");
    let database = OpenOptions::new().read(true).write(true).open(database).unwrap();
    fcntl_lock(&database, FlockOperation::LockExclusive).unwrap();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut child = spawn(&program, &["serve", "--port", "0"]);
        eventually("signals are listened to", async || catches_stop_signals(&child)).await;
        send(&child, signal);
        let is_noted = || program.log().contains("stop");
        eventually("the first one is kept", async || is_noted()).await;
        send(&child, signal);
        assert_eq!(exit_code(&mut child).await, Some(code), "{}", program.log());
    }
}

/// Also the last one to be set up.
fn catches_stop_signals(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id().unwrap())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    [Signal::HUP, Signal::INT, Signal::TERM].iter().all(|signal| mask & (1 << (signal.as_raw() - 1)) != 0)
}
