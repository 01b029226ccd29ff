//! Ending all processes of a workspace, however they hide, and no others.

use std::process::{Command, Stdio};
use std::time::Duration;

use fleet_mcp::process::{EndLimits, Marker, end_tree, find, is_alive, spawn};

use super::workspace::{PATIENT, Workspace, kill};
use crate::harness::skipped;

#[tokio::test]
async fn processes_that_listen_end_by_themselves() {
    let workspace = Workspace::new();
    let script = r#"trap "echo bye; exit 0" TERM; sleep 1000 & echo ready; wait"#;
    let mut spawned = workspace.spawn(script);
    workspace.lines(1).await;
    workspace.settled(2).await;
    assert_eq!(end_tree(&workspace.marker, PATIENT).await.unwrap(), 2);
    assert_eq!((spawned.wait().await.unwrap().code(), workspace.log().as_str()), (Some(0), "ready\nbye\n"));
}

#[tokio::test]
async fn a_stopped_process_is_woken_to_end_by_itself() {
    let workspace = Workspace::new();
    let mut spawned = workspace.spawn(r#"trap "echo bye; exit 0" TERM; echo ready; kill -STOP $$; exit 1"#);
    workspace.lines(1).await;
    assert_eq!(end_tree(&workspace.marker, PATIENT).await.unwrap(), 1);
    assert_eq!((spawned.wait().await.unwrap().code(), workspace.log().as_str()), (Some(0), "ready\nbye\n"));
}

#[tokio::test]
async fn processes_that_ignore_the_polite_signal_are_killed() {
    let workspace = Workspace::new();
    workspace.spawn("trap '' TERM; sleep 1000 & echo ready; wait");
    workspace.lines(1).await;
    workspace.settled(2).await;
    assert_eq!(workspace.end().await, 2);
    assert_eq!(workspace.found(), []);
}

#[tokio::test]
async fn a_process_that_left_its_parent_and_session_is_found_by_its_marker() {
    let workspace = Workspace::new();
    let script = "setsid -f setsid -f sh -c 'echo ready; exec sleep 1000'";
    workspace.spawn(script).wait().await.unwrap();
    workspace.lines(1).await;
    workspace.settled(1).await;
    assert_eq!(workspace.end().await, 1);
}

#[tokio::test]
async fn a_process_that_cleared_its_environment_is_found_by_its_parent() {
    let workspace = Workspace::new();
    workspace.spawn("env -i setsid sleep 1000 & echo ready; wait");
    workspace.settled(2).await;
    assert_eq!(workspace.end().await, 2);
}

#[tokio::test]
async fn a_process_that_cleared_its_environment_is_found_by_its_session() {
    let workspace = Workspace::new();
    let script = "(env -i sleep 1000 &); (sleep 1000 &); exit 0";
    workspace.spawn(script).wait().await.unwrap();
    workspace.settled(2).await;
    assert_eq!(workspace.end().await, 2);
}

#[tokio::test]
async fn a_crowd_that_ignores_the_polite_signal_is_ended_whole() {
    let workspace = Workspace::new();
    let script = "trap '' TERM; i=0; while [ $i -lt 29 ]; do sleep 1000 & i=$((i+1)); done; wait";
    workspace.spawn(script);
    workspace.settled(30).await;
    assert_eq!(workspace.end().await, 30);
    assert_eq!(workspace.found(), []);
}

/// Each hop forks into a new session and the former one exits, so that every look finds another process.
#[tokio::test]
async fn a_process_that_keeps_moving_is_caught() {
    let workspace = Workspace::new();
    let hop = "trap '' TERM HUP; echo hop; sleep 0.05; setsid -f sh hop.sh";
    std::fs::write(workspace.path("hop.sh"), hop).unwrap();
    workspace.spawn("exec sh hop.sh");
    workspace.lines(3).await;
    workspace.end().await;
    assert_eq!(workspace.found(), []);
}

#[tokio::test]
async fn processes_without_the_marker_are_not_signaled() {
    let (workspace, other) = (Workspace::new(), Workspace::new());
    let neighbour = other.spawn("sleep 1000 & wait").id;
    let mut unmarked = other.spec("exec sleep 1000");
    unmarked.environment.remove("FLEET_WORKSPACE");
    let bystander = spawn(&unmarked, Stdio::null(), workspace.open_log()).unwrap();
    workspace.spawn("exec sleep 1000");
    assert_eq!(workspace.end().await, 1);
    assert_eq!([neighbour, bystander.id].map(|process| is_alive(&process).unwrap()), [true, true]);
    kill(&bystander.id);
    other.settled(2).await;
    assert_eq!(other.end().await, 2);
}

/// The marked child shares our own session and group: were these ended too, this test would not return.
#[tokio::test]
async fn a_marked_process_in_our_own_session_is_ended_without_us() {
    let workspace = Workspace::new();
    let Marker { key, value } = &workspace.marker;
    let mut child = Command::new("sleep").arg("1000").env(key, value).spawn().unwrap();
    workspace.settled(1).await;
    assert_eq!(workspace.end().await, 1);
    assert!(!child.wait().unwrap().success());
}

#[tokio::test]
async fn marker_prefix_matches_no_process() {
    let workspace = Workspace::new();
    let shorter = Marker { value: workspace.marker.value[..8].to_owned(), ..workspace.marker.clone() };
    workspace.spawn("exec sleep 1000");
    workspace.settled(1).await;
    assert_eq!(find(&shorter).unwrap(), []);
    assert_eq!(end_tree(&shorter, PATIENT).await.unwrap(), 0);
    assert_eq!(workspace.end().await, 1);
}

/// The kernel ends a PID namespace only when every process inside was reaped, and this parent outside reaps none.
#[tokio::test]
async fn a_namespace_ends_although_a_process_outside_does_not_reap_its_child_inside() {
    let workspace = Workspace::new();
    let program = env!("CARGO_BIN_EXE_fleet-mcp");
    let enclosed = format!("'{program}' enclose --own-processes -- sh -c 'echo inside; exec sleep 1000'");
    let outside = workspace.spawn(&format!("{enclosed} || echo refused")).id.pid;
    if workspace.lines(1).await != ["inside"] {
        return skipped("processes cannot have a PID namespace on this machine");
    }
    let [encloser] = children(outside)[..] else { panic!("one process encloses the command") };
    let namespaces = format!("--user=/proc/{encloser}/ns/user --pid=/proc/{encloser}/ns/pid_for_children");
    let join = "trap \"\" TERM; sleep 1000 & echo joined; exec tail -f /dev/null";
    workspace.spawn(&format!("exec nsenter --preserve-credentials --no-fork {namespaces} sh -c '{join}'"));
    workspace.lines(2).await;
    // The shell, the encloser, the first process and its command; the process outside and its child.
    workspace.settled(6).await;
    let limits = EndLimits { term: Duration::from_millis(300), kill: Duration::from_secs(6) };
    assert_eq!(end_tree(&workspace.marker, limits).await.unwrap(), 6);
    assert_eq!(workspace.found(), []);
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
