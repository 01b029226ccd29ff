//! Compares commands in a workspace with a raw terminal's round trip in the same run, as ratios.

use std::time::{Duration, Instant};

use fleet_mcp::coder::exec::{Command, Exit, Offsets, RunAddress, RunEvent};
use fleet_mcp::coder::{Client, PtyOptions};
use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::harness::LocalSite;
use crate::measure::{Extent, measure, median, ratio, worst};

const ROUNDS: usize = 40;
const MEGABYTE: usize = 1 << 20;
/// Keeps to Coder's limit of requests per minute.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(extent: Extent) {
    let (n_rounds, megabytes) = extent.of((ROUNDS, 100), (1, 3));
    let site = LocalSite::new();
    let local = site.start().await;
    let client = local.client();
    let workspace = local.create_ready("bench").await;
    let agent = workspace.latest_build.resources[0].agents[0].id;

    let raw = measure(n_rounds, PAUSE, async || raw_round_trip(&client, agent).await).await;
    let ours = measure(n_rounds, PAUSE, async || round_trip(&client, agent).await).await;
    report("a round trip", &raw, &ours);
    let at_once = measure(n_rounds.min(3), PAUSE, async || many(&client, agent, 50).await).await;
    println!("50 at once: median {:?}", median(&at_once));
    for megabytes in [3, megabytes] {
        let before = resident();
        let start = Instant::now();
        let most = stream(&client, agent, megabytes * MEGABYTE).await.max(before);
        let rate = megabytes as f64 / start.elapsed().as_secs_f64();
        let grown = (most - before) / 1024;
        println!("{megabytes} MB followed: {rate:.1} MB/s, memory grew by {grown} MiB at most");
    }
    local.coder.stop().await;
}

/// A command in a terminal whose output is read until it closes: what exec cannot be faster than.
async fn raw_round_trip(client: &Client, agent: Uuid) {
    let options = PtyOptions {
        reconnect: Uuid::new_v4(),
        width: 80,
        height: 24,
        command: "echo hi".to_owned(),
        container: None,
    };
    let mut socket = client.pty_connect(agent, &options).await.unwrap();
    let mut said = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Binary(bytes) = message {
            said.extend_from_slice(&bytes);
        }
    }
    assert_eq!(said, b"hi\r\n");
}

async fn round_trip(client: &Client, agent: Uuid) {
    let output = client.exec(agent, &Command::new(["echo", "hi"])).await.unwrap();
    assert_eq!((output.exit, output.stdout.as_ref()), (Exit::Code(0), b"hi\n".as_slice()));
}

async fn many(client: &Client, agent: Uuid, n_commands: usize) {
    join_all((0..n_commands).map(|_| round_trip(client, agent))).await;
}

/// Follows a run that writes so much; returns the most memory seen meanwhile, in KiB.
async fn stream(client: &Client, agent: Uuid, n_bytes: usize) -> usize {
    let run = Uuid::now_v7();
    let command = Command::new(["head", "-c", &n_bytes.to_string(), "/dev/zero"]);
    client.run_start(agent, run, &command).await.unwrap();
    let address = RunAddress { agent, run, container: None };
    let mut events = std::pin::pin!(client.run_follow(&address, Offsets::default()));
    let (mut n_read, mut most) = (0, 0);
    while let Some(event) = events.next().await {
        match event.unwrap() {
            RunEvent::Output { bytes, .. } => n_read += bytes.len(),
            RunEvent::Ended(_) => break,
        }
        most = most.max(resident());
    }
    assert_eq!(n_read, n_bytes);
    client.run_remove(&address).await.unwrap();
    most
}

/// Resident memory of this process, embedded Coder included, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn report(what: &str, raw: &[Duration], ours: &[Duration]) {
    let (raw_median, our_median, our_worst) = (median(raw), median(ours), worst(ours));
    let ratio = ratio(raw, ours);
    println!(
        "{what}: raw terminal {raw_median:?}, exec {our_median:?} (worst {our_worst:?}): {ratio:.1} times"
    );
}
