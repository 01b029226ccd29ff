//! Time limits: all processes of a command are terminated within five seconds of its limit.

use std::time::{Duration, Instant};

use fleet_mcp::coder::exec::{Exit, Offsets, RunEnd, RunEvent};
use futures_util::StreamExt;

use super::{address, alive, output, sh};
use crate::contract::{Subject, agent_id, on_every_coder};

const LIMIT: Duration = Duration::from_secs(3);
const ALL_DEAD: Duration = Duration::from_secs(5);

/// Each of them ignores TERM and prints its number: a child, one that is stopped, one in a session of its own, a
/// daemon without a parent that holds no output open, one whose environment was cleared, one of that kind in
/// a session of its own, and the command itself, which goes on forking.
const RESISTANT: &str = r#"trap '' TERM HUP INT
    sleep 301 & echo $!
    sh -c 'echo $$; kill -STOP $$; sleep 302' &
    setsid sh -c 'echo $$; exec sleep 303' &
    setsid sh -c '(sh -c "echo \$\$ >&3; exec sleep 304" 3>&1 >/dev/null 2>&1 </dev/null &) ; exit'
    env -i "PATH=$PATH" sh -c 'trap "" TERM; echo $$; while :; do sleep 0.3; done' &
    env -i "PATH=$PATH" setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 0.3; done' &
    echo $$; sleep 0.5; echo ready
    while :; do sleep 0.01; done"#;

#[tokio::test]
async fn processes_that_resist_fork_and_detach_are_dead_within_five_seconds() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        let at = address(agent);
        let mut command = sh(RESISTANT);
        command.timeout = LIMIT;
        client.run_start(agent, at.run, &command).await.unwrap();
        let begun = Instant::now();
        let mut events = std::pin::pin!(client.run_follow(&at, Offsets::default()));
        let mut said = String::new();
        let end = loop {
            match events.next().await.unwrap().unwrap() {
                RunEvent::Output { bytes, .. } => said.push_str(&String::from_utf8_lossy(&bytes)),
                RunEvent::Ended(end) => break end,
            }
        };
        let pids: Vec<&str> = said.lines().filter(|line| *line != "ready").collect();
        assert_eq!((end, pids.len()), (RunEnd::Exited(Exit::TimedOut), 7), "{said}");
        assert_eq!(alive(client, agent, &pids).await, "");
        let took = begun.elapsed();
        assert!(took < LIMIT + ALL_DEAD, "{took:?}");
    })
    .await;
}

#[tokio::test]
async fn hidden_process_holding_the_output_does_not_delay_the_end() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        // No marker, no parent and no session of the run: nothing tells that it belongs to it.
        let mut command = sh("env -i setsid sh -c '(/bin/sleep 15 &)'; echo hidden; sleep 300");
        command.timeout = Duration::from_secs(3);
        let begun = Instant::now();
        let got = client.exec(agent, &command).await.unwrap();
        assert_eq!(got, output(Exit::TimedOut, "hidden\n", ""));
        let took = begun.elapsed();
        assert!(took < command.timeout + ALL_DEAD, "{took:?}");
    })
    .await;
}
