//! Volume: a hundred megabytes whole and in order, past a reader and a server that keep none of it.

use std::process::Stdio;

use fleet_mcp::coder::exec::{Exit, Offsets, OutputStream, RunEnd, RunEvent};
use futures_util::StreamExt;

use super::{address, sh};
use crate::contract::{Subject, agent_id, on_every_coder};

const BLOCK: usize = 1_000;
const BLOCKS: usize = 100_000;
/// Blocks that hold their own number, and on the other stream the number of every thousandth.
const WRITER: &str = r#"n=0; while [ $n -lt 100000 ]; do printf '%0999d\n' $n; n=$((n + 1))
    [ $((n % 1000)) != 0 ] || echo $n >&2; done"#;
/// What may be under way between the command and the reader at one time; far less than was written.
const MOST_KIB: usize = 24 * 1024;

/// Compares numbered blocks as they come, in parts of any size.
#[derive(Default)]
struct Blocks {
    n_whole: usize,
    part: Vec<u8>,
}

impl Blocks {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at((BLOCK - self.part.len()).min(bytes.len()));
            self.part.extend_from_slice(now);
            bytes = rest;
            if self.part.len() == BLOCK {
                assert!(self.part == format!("{:0999}\n", self.n_whole).as_bytes(), "block {}", self.n_whole);
                self.part.clear();
                self.n_whole += 1;
            }
        }
    }
}

/// A figure of this process's memory, in KiB.
fn memory(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap()
}

/// Alone in its process, so that the most memory it ever had is that of this test: of the reader, and of the
/// embedded Coder through which everything goes.
#[tokio::test]
#[ignore = "another test starts it as a process of its own"]
async fn a_reader() {
    on_every_coder(async |subject: &Subject| {
        let (client, agent) = (&subject.client, agent_id(&subject.create_ready().await));
        client.exec(agent, &sh("head -c 1000000 /dev/zero")).await.unwrap();
        let before = memory("VmRSS");
        let at = address(agent);
        client.run_start(agent, at.run, &sh(WRITER)).await.unwrap();
        let (mut blocks, mut numbers) = (Blocks::default(), String::new());
        let mut events = std::pin::pin!(client.run_follow(&at, Offsets::default()));
        let end = loop {
            match events.next().await.unwrap().unwrap() {
                RunEvent::Output { stream: OutputStream::Stdout, bytes, .. } => blocks.push(&bytes),
                RunEvent::Output { stream: OutputStream::Stderr, bytes, .. } => {
                    numbers.push_str(&String::from_utf8_lossy(&bytes));
                }
                RunEvent::Ended(end) => break end,
            }
        };
        let grown = memory("VmHWM") - before;
        assert_eq!(end, RunEnd::Exited(Exit::Code(0)));
        assert_eq!((blocks.n_whole, blocks.part.len()), (BLOCKS, 0));
        let expected: String = (1..=100).map(|n| format!("{}\n", n * 1_000)).collect();
        assert_eq!(numbers, expected);
        assert!(grown < MOST_KIB, "the memory grew by {grown} KiB");
    })
    .await;
}

#[tokio::test]
async fn a_hundred_megabytes_come_whole_and_in_order_while_memory_stays_flat() {
    let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "exec::volume::a_reader", "--ignored", "--nocapture"]);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
