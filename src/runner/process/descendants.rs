//! Finds every process of a run by the marker in its environment, wherever it went, and ends it.
//!
//! A process group or session is not enough: engines start children in sessions of their own. The marker is
//! inherited by all of them; only a process that clears its environment escapes.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::domain::id::RunId;

/// The variable that every process of a run carries.
pub(super) const MARKER: &str = "FLEET_RUN";

/// What cannot be killed in this time is stuck in the kernel; nobody could end it sooner.
const KILL_LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// Ends every process of the run, also those that appear meanwhile, and returns when none is left.
///
/// First they are asked, because a process that is killed cleans nothing up: git would leave its locks behind,
/// and the next run could not commit.
pub(crate) async fn end(run: RunId, grace: Duration) {
    // Asked only once: some programs take a second TERM for an order to drop everything.
    if look(run, Some(Signal::TERM)).await == 0 {
        return;
    }
    if tokio::time::timeout(grace, until_none(run, None)).await.is_ok() {
        return;
    }
    if tokio::time::timeout(KILL_LIMIT, until_none(run, Some(Signal::KILL))).await.is_err() {
        tracing::warn!(run.id = %run, "some processes of the run cannot be ended");
    }
}

async fn until_none(run: RunId, signal: Option<Signal>) {
    while look(run, signal).await > 0 {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Counts the living processes of the run, and sends each of them the signal.
async fn look(run: RunId, signal: Option<Signal>) -> usize {
    let marker = format!("{MARKER}={run}").into_bytes();
    let looked = tokio::task::spawn_blocking(move || {
        let found = marked(&marker);
        if let Some(signal) = signal {
            // Those that have ended by themselves meanwhile did what we wanted.
            for process in &found {
                let _gone = pidfd_send_signal(process, signal);
            }
        }
        found.len()
    });
    looked.await.unwrap_or_default()
}

/// Handles that stay with their process, so that a number used again is never hit.
fn marked(marker: &[u8]) -> Vec<OwnedFd> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number| handle(number, marker)).collect()
}

fn handle(number: i32, marker: &[u8]) -> Option<OwnedFd> {
    if !carries(number, marker) {
        return None;
    }
    let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
    // Looked at again, because the number could have changed hands before we held the process.
    carries(number, marker).then_some(handle)
}

/// A process that has ended and waits to be collected has no environment any more, and does not count.
fn carries(number: i32, marker: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == marker)
}
