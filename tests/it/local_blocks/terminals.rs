//! Terminals without a socket: bytes both ways, sharing, replay, size and end.

use std::time::Duration;

use fleet_mcp::local::LocalLimits;
use fleet_mcp::local::pty::{Attachment, PtyInput, PtySessions};
use fleet_mcp::process::exited;
use uuid::Uuid;

use super::workspace::Workspace;
use crate::harness::eventually;

const MEGABYTES: usize = 3_000_000;

struct Scene {
    workspace: Workspace,
    sessions: PtySessions,
}

impl Scene {
    fn new(idle: Duration) -> Self {
        let limits = LocalLimits { terminal_idle: idle, ..LocalLimits::NORMAL };
        Self { workspace: Workspace::new(), sessions: PtySessions::new(limits) }
    }

    fn attach(&self, reconnect: Uuid, script: &str) -> Attachment {
        self.sessions.attach(reconnect, &self.workspace.terminal(script)).unwrap()
    }

    fn run(&self, script: &str) -> Attachment {
        self.attach(Uuid::new_v4(), script)
    }
}

/// All output up to the end of the command.
async fn rest(attachment: &mut Attachment) -> String {
    let mut output = Vec::new();
    while let Some(chunk) = attachment.output().await {
        output.extend_from_slice(&chunk);
    }
    String::from_utf8(output).unwrap()
}

/// Output up to and with this word.
async fn until(attachment: &mut Attachment, word: &str) -> String {
    let mut output = String::new();
    while !output.ends_with(word) {
        let chunk = attachment.output().await.unwrap_or_else(|| panic!("no {word:?} after {output:?}"));
        output.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    output
}

async fn type_in(attachment: &Attachment, text: &str) {
    attachment.input().send(PtyInput::Data(text.to_owned())).await.unwrap();
}

#[test]
fn a_terminal_without_a_client_is_kept_for_five_minutes() {
    assert_eq!(LocalLimits::NORMAL.terminal_idle, Duration::from_secs(300));
}

#[tokio::test]
async fn output_comes_whole_and_then_the_end() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    assert_eq!(rest(&mut scene.run("echo out; echo err >&2; pwd; exit 3")).await, {
        format!("out\r\nerr\r\n{}\r\n", scene.workspace.folder.path().display())
    });
}

#[tokio::test]
async fn a_cooked_terminal_echoes_what_is_typed() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let mut attachment = scene.run("printf '> '; read -r line; echo \"got $line\"");
    until(&mut attachment, "> ").await;
    type_in(&attachment, "hello\n").await;
    assert_eq!(rest(&mut attachment).await, "hello\r\ngot hello\r\n");
}

#[tokio::test]
async fn three_megabytes_come_out_of_a_raw_terminal_intact() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let output = rest(&mut scene.run("stty raw -echo -opost; seq 1 450000 | head -c 3000000")).await;
    let expected: String = (1..=450_000).map(|number| format!("{number}\n")).collect();
    assert!(output == expected[..MEGABYTES], "{} bytes arrived", output.len());
}

#[tokio::test]
async fn three_megabytes_go_into_a_raw_terminal_intact() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let script = "stty raw -echo -opost; printf ready; head -c 3000000 > received; printf done";
    let mut attachment = scene.run(script);
    until(&mut attachment, "ready").await;
    let sent: String = (1..=450_000).map(|number| format!("{number}\n")).collect();
    for part in sent.as_bytes()[..MEGABYTES].chunks(100_000) {
        type_in(&attachment, std::str::from_utf8(part).unwrap()).await;
    }
    assert_eq!(rest(&mut attachment).await, "done");
    let received = std::fs::read_to_string(scene.workspace.path("received")).unwrap();
    assert!(received == sent[..MEGABYTES], "{} bytes arrived", received.len());
}

#[tokio::test]
async fn reattached_client_gets_the_newest_64_kib_then_live_output() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let reconnect = Uuid::new_v4();
    let script = "stty raw -echo -opost; seq 1 20000; printf ready; read -r line; printf after";
    let mut first = scene.attach(reconnect, script);
    until(&mut first, "ready").await;
    drop(first);
    let mut second = scene.attach(reconnect, "echo another command is not started");
    let everything: String = (1..=20_000).map(|number| format!("{number}\n")).collect::<String>() + "ready";
    assert_eq!(until(&mut second, "ready").await, everything[everything.len() - 64 * 1024..]);
    type_in(&second, "\n").await;
    assert_eq!(rest(&mut second).await, "after");
}

#[tokio::test]
async fn clients_of_one_id_share_input_and_output() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let reconnect = Uuid::new_v4();
    let script = "stty -echo; printf ready; read -r line; echo \"got $line\"";
    let mut first = scene.attach(reconnect, script);
    until(&mut first, "ready").await;
    let mut second = scene.attach(reconnect, script);
    until(&mut second, "ready").await;
    type_in(&second, "hello\n").await;
    let outputs = (rest(&mut first).await, rest(&mut second).await);
    assert_eq!(outputs, ("got hello\r\n".to_owned(), "got hello\r\n".to_owned()));
}

#[tokio::test]
async fn an_id_whose_command_ended_starts_anew() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let reconnect = Uuid::new_v4();
    assert_eq!(rest(&mut scene.attach(reconnect, "printf one")).await, "one");
    assert_eq!(rest(&mut scene.attach(reconnect, "printf two")).await, "two");
}

#[tokio::test]
async fn the_command_sees_its_size_and_every_change_of_it() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let reconnect = Uuid::new_v4();
    let script = "stty -echo; while stty size; do read -r line; done";
    let mut attachment = scene.attach(reconnect, script);
    assert_eq!(until(&mut attachment, "\n").await, "24 80\r\n");
    attachment.input().send(PtyInput::Resize { width: 132, height: 43 }).await.unwrap();
    type_in(&attachment, "\n").await;
    assert_eq!(until(&mut attachment, "\n").await, "43 132\r\n");
    let mut spec = scene.workspace.terminal(script);
    (spec.width, spec.height) = (100, 30);
    let second = scene.sessions.attach(reconnect, &spec).unwrap();
    type_in(&second, "\n").await;
    assert_eq!(until(&mut attachment, "\n").await, "30 100\r\n");
    scene.sessions.close().await;
}

#[tokio::test]
async fn a_command_without_a_client_is_ended_after_the_idle_limit() {
    let scene = Scene::new(Duration::from_millis(50));
    let mut attachment = scene.run("printf ready; trap '' HUP; sleep 1000; :");
    until(&mut attachment, "ready").await;
    let processes = scene.workspace.settled(2).await;
    drop(attachment);
    for process in processes {
        exited(&process).await.unwrap();
    }
}

#[tokio::test]
async fn a_command_outlives_the_idle_limit_while_a_client_is_connected() {
    let scene = Scene::new(Duration::from_millis(1));
    let reconnect = Uuid::new_v4();
    let script = "printf ready; until [ -e second ]; do sleep 0.01; done; sleep 0.3; printf done";
    let mut first = scene.attach(reconnect, script);
    until(&mut first, "ready").await;
    let mut second = scene.attach(reconnect, "exit");
    drop(first);
    std::fs::write(scene.workspace.path("second"), "").unwrap();
    assert_eq!(until(&mut second, "done").await, "readydone");
}

#[tokio::test]
async fn processes_left_in_the_session_get_the_hangup_with_the_command() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let mut attachment = scene.run("sleep 1000 > /dev/null 2>&1 & printf ready");
    assert_eq!(rest(&mut attachment).await, "ready");
    scene.sessions.close().await;
    eventually("the hang-up has ended it", async || scene.workspace.found().is_empty()).await;
}

/// As under a real agent, which ends its command alone.
#[tokio::test]
async fn process_that_ignores_sighup_outlives_the_command() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let script = "(trap '' HUP; : > deaf; exec sleep 1000) < /dev/null > /dev/null 2>&1 &
        until [ -e deaf ]; do :; done; printf ready";
    let mut attachment = scene.run(script);
    assert_eq!(rest(&mut attachment).await, "ready");
    scene.sessions.close().await;
    assert_eq!(scene.workspace.end().await, 1);
}

/// The shell waits for the move: a process that is changing its session when the shell exits is hung up with the
/// rest, as on a real server.
#[tokio::test]
async fn process_in_a_session_of_its_own_outlives_the_command() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let script = "setsid -f sh -c ': > moved; exec sleep 1000' < /dev/null > /dev/null 2>&1
        until [ -e moved ]; do :; done; printf ready";
    let mut attachment = scene.run(script);
    assert_eq!(rest(&mut attachment).await, "ready");
    scene.sessions.close().await;
    assert_eq!(scene.workspace.end().await, 1);
}

#[tokio::test]
async fn closing_ends_every_terminal_and_refuses_new_ones() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let mut attachments =
        [scene.run("printf ready; sleep 1000"), scene.run("trap '' HUP; printf ready; cat")];
    for attachment in &mut attachments {
        until(attachment, "ready").await;
    }
    scene.sessions.close().await;
    assert_eq!(scene.workspace.found(), []);
    for attachment in &mut attachments {
        assert_eq!(attachment.output().await, None);
    }
    assert!(scene.sessions.attach(Uuid::new_v4(), &scene.workspace.terminal("true")).is_err());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let mut spec = scene.workspace.terminal("true");
    spec.prefix = vec![scene.workspace.path("absent").into()];
    let error = scene.sessions.attach(Uuid::new_v4(), &spec).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn fifty_commands_at_once_all_answer() {
    let scene = Scene::new(LocalLimits::NORMAL.terminal_idle);
    let mut attachments: Vec<Attachment> =
        (0..50).map(|number| scene.run(&format!("printf {number}"))).collect();
    for (number, attachment) in attachments.iter_mut().enumerate() {
        assert_eq!(rest(attachment).await, number.to_string());
    }
    scene.sessions.close().await;
}
