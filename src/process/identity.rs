//! Identifies a process unambiguously although pids are reused, and waits for its end.

use std::os::fd::OwnedFd;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use uuid::Uuid;

use super::stat::Stat;

/// One process of one boot of this machine; stays valid on disk across our own restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// In clock ticks since the machine booted.
    pub start_time: u64,
    pub boot_id: Uuid,
}

/// Whether exactly this process still runs; a zombie does not. An error means that this is unknown.
pub fn is_alive(process: &ProcessId) -> io::Result<bool> {
    let is_same = |stat: Stat| stat.is_running && stat.start_time == process.start_time;
    Ok(boot_id()? == process.boot_id && Stat::of(process.pid)?.is_some_and(is_same))
}

/// Whether any process with this pid runs, including those that `/proc` hides; a zombie does not.
pub(crate) fn is_running(pid: u32) -> bool {
    match raw(pid).map(test_kill_process) {
        Some(Ok(())) => Stat::of(pid).is_ok_and(|stat| stat.is_none_or(|stat| stat.is_running)),
        // It runs as another user.
        Some(Err(error)) => error == Errno::PERM,
        None => false,
    }
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Returns once the process has ended, also if it is not our child; at once if it already has. An error means that
/// this is unknown.
pub async fn exited(process: &ProcessId) -> io::Result<()> {
    let Some(handle) = handle(process)? else { return Ok(()) };
    #[expect(deprecated, reason = "its successor is unsafe to call, and an OwnedFd meets what that asks for")]
    let handle = AsyncFd::with_interest(handle, Interest::READABLE)?;
    handle.readable().await?.retain_ready();
    Ok(())
}

impl ProcessId {
    /// The current process with this pid.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("no process {pid}"));
        let stat = Stat::of(pid)?.ok_or_else(gone)?;
        Ok(Self::from_stat(&stat, boot_id()?))
    }

    pub(super) fn from_stat(stat: &Stat, boot_id: Uuid) -> Self {
        Self { pid: stat.pid, start_time: stat.start_time, boot_id }
    }
}

/// Changes with every boot, and with it the meaning of pids and start times.
pub(super) fn boot_id() -> io::Result<Uuid> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    text.trim().parse().map_err(io::Error::other)
}

/// Signals exactly this process. A process that has ended or belongs to another user now is no error: the others
/// must still be signaled.
pub(super) fn signal(process: &ProcessId, signal: Signal) -> io::Result<()> {
    let Some(handle) = handle(process)? else { return Ok(()) };
    match pidfd_send_signal(handle, signal) {
        Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The descriptor pins the current owner of the pid, so the identity is compared after it is open.
fn handle(process: &ProcessId) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = raw(process.pid) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(is_alive(process)?.then_some(handle)),
        // The last two: the pid now belongs to a mere thread.
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
