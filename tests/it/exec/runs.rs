//! Durable runs: once and only once, followed across broken connections, signalled, canceled, lost, removed.

use bytes::BytesMut;
use fleet_mcp::coder::Client;
use fleet_mcp::coder::exec::{
    Command, ExecError, Exit, Offsets, OutputStream, RunAddress, RunEnd, RunEvent, RunState,
};
use futures_util::future::join_all;
use futures_util::{Stream, StreamExt};
use uuid::Uuid;

use super::{address, alive, every_byte, sh};
use crate::contract::{Subject, agent_id, on_every_coder};
use crate::harness::{FaultProxy, Matches, ProxyFault, Rule, When, client};

type Events = std::pin::Pin<Box<dyn Stream<Item = Result<RunEvent, ExecError>> + Send>>;

/// All that a run said from there on, and its end; every chunk must begin where the one before it ended.
pub(super) async fn whole(
    client: &Client,
    address: &RunAddress,
    from: Offsets,
) -> (BytesMut, BytesMut, RunEnd) {
    let mut events: Events = Box::pin(client.run_follow(address, from));
    let (mut stdout, mut stderr) = (BytesMut::new(), BytesMut::new());
    while let Some(event) = events.next().await {
        match event.unwrap() {
            RunEvent::Output { stream, offset, bytes } => {
                let (all, start) = match stream {
                    OutputStream::Stdout => (&mut stdout, from.stdout),
                    OutputStream::Stderr => (&mut stderr, from.stderr),
                };
                assert_eq!(offset, start + all.len() as u64);
                all.extend_from_slice(&bytes);
            }
            RunEvent::Ended(end) => return (stdout, stderr, end),
        }
    }
    panic!("the stream ended before the run");
}

/// Follows a run until it has said this.
async fn until_said(client: &Client, address: &RunAddress, wanted: &str) -> String {
    let mut events: Events = Box::pin(client.run_follow(address, Offsets::default()));
    let mut said = String::new();
    while !said.contains(wanted) {
        match events.next().await.unwrap().unwrap() {
            RunEvent::Output { bytes, .. } => said.push_str(&String::from_utf8_lossy(&bytes)),
            RunEvent::Ended(end) => panic!("ended with {end:?} after {said}"),
        }
    }
    said
}

#[tokio::test]
async fn a_run_starts_once_however_often_it_is_asked_for_and_never_again_once_removed() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        let at = address(agent);
        let wait = "until [ -e /tmp/$0.go ]; do sleep 0.05; done";
        let script = format!("echo ran >>/tmp/$0; {wait}; rm /tmp/$0.go; cat /tmp/$0");
        let command = Command::new(["sh", "-c", &script, &at.run.to_string()]);
        let starts = join_all((0..4).map(|_| client.run_start(agent, at.run, &command))).await;
        assert!(starts.into_iter().all(|start| start.unwrap() == RunState::Running));
        client.exec(agent, &sh(&format!("touch /tmp/{}.go", at.run))).await.unwrap();
        let (stdout, _, end) = whole(client, &at, Offsets::default()).await;
        assert_eq!((stdout.as_ref(), end), (b"ran\n".as_slice(), RunEnd::Exited(Exit::Code(0))));
        let ended = RunState::Ended(end);
        assert_eq!(client.run_start(agent, at.run, &command).await.unwrap(), ended);

        client.run_remove(&at).await.unwrap();
        client.run_remove(&at).await.unwrap();
        assert_eq!(client.run_start(agent, at.run, &command).await.unwrap(), RunState::Removed);
        let check = sh(&format!("cat /tmp/{0}; rm /tmp/{0}", at.run));
        assert_eq!(client.exec(agent, &check).await.unwrap().stdout, "ran\n");
    })
    .await;
}

#[tokio::test]
async fn three_megabytes_on_each_stream_come_whole_and_in_order_from_any_offset() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        let at = address(agent);
        let data = every_byte(3 << 20);
        let mut command = sh("f=/tmp/$FLEET_EXEC; cat >$f; cat $f >&2 & cat $f; wait; rm $f");
        command.stdin = data.clone();
        client.run_start(agent, at.run, &command).await.unwrap();
        let (stdout, stderr, end) = whole(client, &at, Offsets::default()).await;
        assert!(stdout == data && stderr == data);
        assert_eq!(end, RunEnd::Exited(Exit::Code(0)));
        let from = Offsets { stdout: 1_234_567, stderr: (3 << 20) - 1 };
        let (stdout, stderr, _) = whole(client, &at, from).await;
        assert!(stdout == data[1_234_567..] && stderr == data[(3 << 20) - 1..]);
        let past = Offsets { stdout: 3 << 20, stderr: 3 << 20 };
        let (stdout, stderr, _) = whole(client, &at, past).await;
        assert!(stdout.is_empty() && stderr.is_empty());
    })
    .await;
}

#[tokio::test]
async fn connections_cut_anywhere_lose_nothing_and_run_nothing_twice() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let proxy = FaultProxy::start(&subject.url).await;
        let client = client(&proxy.url(), &subject.token);
        let pty = || Matches::path("/api/v2/workspaceagents/{agent}/pty");
        let fault = |n, kind| proxy.fault(Rule { matches: pty(), when: When::Nth(n), kind });
        fault(1, ProxyFault::CutBefore);
        fault(2, ProxyFault::CutAfter);
        // In the handshake, in the script's way in, in its answers, and in the middle of the output.
        let bytes = [1, 10, 150, 1_000, 5_000, 40_000, 70_000, 200_000, 300_000, 1_000_000];
        let cuts: Vec<_> =
            (3..).zip(bytes).map(|(n, bytes)| fault(n, ProxyFault::CutInBody { bytes })).collect();
        let at = address(agent);
        let data = every_byte(2 << 20);
        let mut command = sh("echo x >>/tmp/$FLEET_EXEC; cat; cat /tmp/$FLEET_EXEC >&2; rm /tmp/$FLEET_EXEC");
        command.stdin = data.clone();
        client.run_start(agent, at.run, &command).await.unwrap();
        let (stdout, stderr, end) = whole(&client, &at, Offsets::default()).await;
        assert!(stdout == data);
        assert_eq!((stderr.as_ref(), end), (b"x\n".as_slice(), RunEnd::Exited(Exit::Code(0))));
        assert!(cuts.into_iter().all(|cut| proxy.fault_hits(cut) == 1));
    })
    .await;
}

#[tokio::test]
async fn a_canceled_run_leaves_no_process_even_if_it_ignores_signals() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        let at = address(agent);
        client.run_start(agent, at.run, &sh(super::STUBBORN)).await.unwrap();
        let said = until_said(client, &at, "ready").await;
        let pids: Vec<&str> = said.lines().filter(|line| *line != "ready").collect();
        assert_eq!(pids.len(), 3, "{said}");
        let canceled = RunState::Ended(RunEnd::Canceled);
        assert_eq!(client.run_cancel(&at).await.unwrap(), canceled);
        assert_eq!(alive(client, agent, &pids).await, "");
        assert_eq!(client.run_cancel(&at).await.unwrap(), canceled);
    })
    .await;
}

#[tokio::test]
async fn a_run_whose_supervisor_died_is_lost_and_its_processes_go_when_it_is_removed() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        let at = address(agent);
        client.run_start(agent, at.run, &sh("echo $$; echo ready; exec sleep 300")).await.unwrap();
        let said = until_said(client, &at, "ready").await;
        let find = r#"d=${FLEET_AGENT_DIR%/fleet}/runs; [ -d "$d" ] || d=$HOME/.fleet/runs
            read -r pid rest <"$d/$1/supervisor" && kill -KILL "$pid""#;
        let killed = client.exec(agent, &Command::new(["sh", "-c", find, "sh", &at.run.to_string()])).await;
        assert_eq!(killed.unwrap().exit, Exit::Code(0));
        let (_, _, end) = whole(client, &at, Offsets::default()).await;
        assert_eq!(end, RunEnd::Lost);
        client.run_remove(&at).await.unwrap();
        let pid = said.lines().next().unwrap();
        assert_eq!(alive(client, agent, &[pid]).await, "");
    })
    .await;
}

#[tokio::test]
async fn fifty_commands_at_once_all_come_back() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        let commands: Vec<Command> = (0..50).map(|n| sh(&format!("echo {n}; exit {n}"))).collect();
        let outputs = join_all(commands.iter().map(|command| client.exec(agent, command))).await;
        for (n, output) in outputs.into_iter().enumerate() {
            let expected = super::output(Exit::Code(n.try_into().unwrap()), &format!("{n}\n"), "");
            assert_eq!(output.unwrap(), expected);
        }
    })
    .await;
}

#[tokio::test]
async fn a_run_that_is_not_there_cannot_be_followed() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let mut events: Events = Box::pin(subject.client.run_follow(&address(agent), Offsets::default()));
        assert!(matches!(events.next().await, Some(Err(ExecError::Unknown))));
        assert!(events.next().await.is_none());
        let missing = subject.client.run_cancel(&address(Uuid::new_v4())).await.unwrap_err();
        assert!(matches!(missing, ExecError::Coder(_)), "{missing}");
    })
    .await;
}
