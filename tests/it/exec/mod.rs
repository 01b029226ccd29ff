//! Commands inside a workspace: on the embedded Coder always, and on a real one that the environment names.

mod once;

use bytes::Bytes;
use fleet_mcp::coder::exec::{Command, Exit, Output};

fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

fn output(exit: Exit, stdout: &str, stderr: &str) -> Output {
    Output { exit, stdout: stdout.to_owned().into(), stderr: stderr.to_owned().into(), truncated: false }
}

/// Bytes of all values in an order that never repeats within a terminal's buffers.
fn every_byte(length: usize) -> Bytes {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}
