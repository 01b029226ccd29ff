//! Commands inside a workspace: on the embedded Coder always, and on a real one that the environment names.

mod container;
mod cuts;
mod deployment;
mod fleet;
mod kill_points;
mod once;
mod poor;
mod runs;
mod secrets;
mod timeouts;
mod volume;

use bytes::Bytes;
use fleet_mcp::coder::Client;
use fleet_mcp::coder::exec::{Command, Exit, Output, RunAddress};
use uuid::Uuid;

/// Prints the numbers of three processes that ignore what is polite; one made a session of its own.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 300' & sleep 300 & echo $!
    echo $$; sleep 0.2; echo ready; while :; do sleep 1; done";

fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

fn address(agent: Uuid) -> RunAddress {
    RunAddress { agent, run: Uuid::now_v7(), container: None }
}

fn output(exit: Exit, stdout: &str, stderr: &str) -> Output {
    Output { exit, stdout: stdout.to_owned().into(), stderr: stderr.to_owned().into(), truncated: false }
}

/// Bytes of all values in an order that never repeats within a terminal's buffers.
fn every_byte(length: usize) -> Bytes {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Those of the processes that run; a zombie does not.
async fn alive(client: &Client, agent: Uuid, pids: &[&str]) -> String {
    let script = r#"for pid in "$@"; do read -r stat <"/proc/$pid/stat" || continue
        case $stat in *") Z "*) ;; *) echo "$stat" ;; esac; done 2>/dev/null; :"#;
    let command = Command::new(["sh", "-c", script, "sh"].iter().chain(pids).copied());
    let got = client.exec(agent, &command).await.unwrap();
    assert_eq!(got.exit, Exit::Code(0));
    String::from_utf8_lossy(&got.stdout).into_owned()
}
