//! Starting processes, knowing them again and noticing their end.

use std::path::Path;
use std::process::Stdio;

use fleet_mcp::process::{ProcessId, exited, is_alive, spawn};
use uuid::Uuid;

use super::workspace::{Workspace, kill};
use crate::harness::eventually;

#[tokio::test]
async fn a_process_leads_its_session_and_gets_only_what_it_is_given() {
    let workspace = Workspace::new();
    let script = r#"read -r _ _ _ _ _ session _ < /proc/$$/stat
        test "$session" = $$ && echo leader; readlink /proc/$$/fd/0; pwd; tr '\0' '\n' < /proc/$$/environ | sort; echo error >&2"#;
    assert!(workspace.spawn(script).wait().await.unwrap().success());
    let directory = workspace.folder.path().display().to_string();
    let mut expected = vec!["leader".to_owned(), "/dev/null".to_owned(), directory];
    let mut environment: Vec<String> =
        workspace.environment().iter().map(|(key, value)| format!("{key}={value}")).collect();
    environment.sort();
    expected.extend(environment);
    expected.push("error".to_owned());
    assert_eq!(workspace.log().lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn output_is_appended_to_the_log() {
    let workspace = Workspace::new();
    workspace.spawn("echo one").wait().await.unwrap();
    let status = workspace.spawn("echo two; exit 3").wait().await.unwrap();
    assert_eq!((workspace.log().as_str(), status.code()), ("one\ntwo\n", Some(3)));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_and_no_process() {
    let workspace = Workspace::new();
    let mut spec = workspace.spec("");
    spec.program = workspace.path("absent");
    assert_eq!(
        spawn(&spec, Stdio::null(), workspace.open_log()).unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
    assert_eq!(workspace.found(), []);
}

#[tokio::test]
async fn the_exit_of_the_leader_is_seen_while_its_children_go_on() {
    let workspace = Workspace::new();
    let mut spawned = workspace.spawn("sleep 1000 & exit 7");
    assert_eq!(spawned.wait().await.unwrap().code(), Some(7));
    assert_eq!(workspace.end().await, 1);
}

#[tokio::test]
async fn a_pid_that_came_round_again_is_not_the_same_process() {
    let workspace = Workspace::new();
    let spawned = workspace.spawn("exec sleep 1000");
    let id = spawned.id;
    let later = ProcessId { start_time: id.start_time + 1, ..id };
    let other_boot = ProcessId { boot_id: Uuid::new_v4(), ..id };
    assert_eq!([id, later, other_boot].map(|process| is_alive(&process).unwrap()), [true, false, false]);
    // Both are gone already, so neither waits for the process that runs.
    exited(&later).await.unwrap();
    exited(&other_boot).await.unwrap();
    assert!(is_alive(&id).unwrap());
    workspace.end().await;
}

#[tokio::test]
async fn an_identity_survives_being_written_down() {
    let workspace = Workspace::new();
    let id = workspace.spawn("exec sleep 1000").id;
    let written = serde_json::to_string(&id).unwrap();
    let read: ProcessId = serde_json::from_str(&written).unwrap();
    assert_eq!((read, is_alive(&read).unwrap()), (id, true));
    workspace.end().await;
}

#[tokio::test]
async fn the_end_of_a_process_that_is_not_our_child_is_noticed() {
    let workspace = Workspace::new();
    workspace.spawn("setsid -f sleep 1000").wait().await.unwrap();
    let [orphan] = workspace.settled(1).await[..] else { panic!("one process is left") };
    let end = tokio::spawn(async move { exited(&orphan).await });
    assert!(is_alive(&orphan).unwrap());
    kill(&orphan);
    end.await.unwrap().unwrap();
    assert!(!is_alive(&orphan).unwrap());
}

#[tokio::test]
async fn a_dead_child_is_not_alive_before_it_is_reaped_and_does_not_stay_when_its_handle_is_dropped() {
    let workspace = Workspace::new();
    let spawned = workspace.spawn("exec sleep 1000");
    let id = spawned.id;
    kill(&id);
    exited(&id).await.unwrap();
    assert!(!is_alive(&id).unwrap());
    drop(spawned);
    let entry = format!("/proc/{}", id.pid);
    eventually("the zombie is gone", async || !Path::new(&entry).exists()).await;
}
