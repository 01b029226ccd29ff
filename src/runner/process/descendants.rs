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
/// and the next run could not commit. The topmost go before the rest: an engine whose command ends under it would
/// take that for an answer, and ask its model what to do next.
pub(crate) async fn end(run: RunId, grace: Duration) {
    let top = look(run, |found| ask(top_of(found), Signal::TERM)).await;
    if top.is_empty() {
        return;
    }
    let are_gone = |left: &[i32]| !left.iter().any(|number| top.contains(number));
    let _late = tokio::time::timeout(grace, until(run, are_gone)).await;
    // Asked only once: some programs take a second TERM for an order to drop everything.
    let known = top.clone();
    let rest = move |found: Vec<Process>| {
        ask(found.into_iter().filter(|process| !known.contains(&process.number)).collect(), Signal::TERM)
    };
    let is_none = |left: &[i32]| left.is_empty();
    if !look(run, rest).await.is_empty() {
        let _late = tokio::time::timeout(grace, until(run, is_none)).await;
    }
    if tokio::time::timeout(KILL_LIMIT, kill(run)).await.is_err() {
        tracing::warn!(run.id = %run, "some processes of the run cannot be ended");
    }
}

async fn kill(run: RunId) {
    while !look(run, |found| ask(found, Signal::KILL)).await.is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
}

async fn until(run: RunId, is_enough: impl Fn(&[i32]) -> bool) {
    let numbers = |found: Vec<Process>| found.iter().map(|process| process.number).collect::<Vec<_>>();
    while !is_enough(&look(run, numbers).await) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// A process of the run, by a handle that stays with it, so that a number used again is never hit.
#[derive(Debug)]
struct Process {
    number: i32,
    parent: i32,
    handle: OwnedFd,
}

/// Looks through all processes, away from those that must not wait.
async fn look<T: Default + Send + 'static>(
    run: RunId,
    then: impl FnOnce(Vec<Process>) -> T + Send + 'static,
) -> T {
    let marker = format!("{MARKER}={run}").into_bytes();
    tokio::task::spawn_blocking(move || then(marked(&marker))).await.unwrap_or_default()
}

/// Sends each of them the signal; tells which they are.
fn ask(processes: Vec<Process>, signal: Signal) -> Vec<i32> {
    let numbers = processes.iter().map(|process| process.number).collect();
    for process in processes {
        // One that has ended by itself meanwhile did what we wanted.
        let _gone = pidfd_send_signal(&process.handle, signal);
    }
    numbers
}

/// Those that none of the others has started.
fn top_of(processes: Vec<Process>) -> Vec<Process> {
    let numbers: Vec<i32> = processes.iter().map(|process| process.number).collect();
    processes.into_iter().filter(|process| !numbers.contains(&process.parent)).collect()
}

fn marked(marker: &[u8]) -> Vec<Process> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number| process(number, marker)).collect()
}

fn process(number: i32, marker: &[u8]) -> Option<Process> {
    if !carries(number, marker) {
        return None;
    }
    let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
    // Looked at again, because the number could have changed hands before we held the process.
    carries(number, marker).then_some(Process { number, parent: parent(number).unwrap_or_default(), handle })
}

/// The second field after the name, which is in parentheses and may hold anything.
fn parent(number: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A process that has ended and waits to be collected has no environment any more, and does not count.
fn carries(number: i32, marker: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == marker)
}
