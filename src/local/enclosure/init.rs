//! The init of a PID namespace: starts the command, reaps processes, and ends the rest when the command ends.
//!
//! When init ends, the kernel kills every process of the namespace, independent of session, parent or environment.
//! Processes inside cannot kill init; it dies with the process that started it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, set_parent_process_death_signal, setsid, wait,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout};

use super::error::EncloseError;
use super::outer::{exit_code, release_input};
use super::{mounts, rights};
use crate::process::is_alone;

const PAUSE: Duration = Duration::from_millis(10);

/// Runs the command as the init of a namespace; returns its exit code. The descriptor is the pipe that closes when
/// the process outside dies; `leftovers` is how long the other processes may take to end after the command.
pub fn init(tether: RawFd, command: &[OsString], leftovers: Duration) -> Result<u8, EncloseError> {
    // Anywhere else it would mount over the /proc of others and signal all processes of the machine.
    if getpid() != Pid::INIT {
        return Err(EncloseError::Supervise(io::Error::other(
            "this is not the first process of a PID namespace",
        )));
    }
    follow_parent(tether).map_err(EncloseError::Supervise)?;
    mounts::own_processes().map_err(EncloseError::ProcessScope)?;
    mounts::protect_machine().map_err(EncloseError::Machine)?;
    rights::give_up_mounting().and_then(|()| rights::forbid_tracing()).map_err(EncloseError::Rights)?;
    let Some((program, arguments)) = command.split_first() else { return Ok(0) };
    let main = Command::new(program).args(arguments).spawn();
    let main = main.map_err(|source| EncloseError::Start { program: program.into(), source })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = runtime.and_then(|runtime| {
        release_input()?;
        runtime.block_on(outlive(Pid::from_child(&main), leftovers))
    });
    code.map_err(EncloseError::Supervise)
}

/// Requests a signal for the death of the process outside. The pipe tells whether it died before that request.
fn follow_parent(tether: RawFd) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut pipe = File::options().read(true).custom_flags(flags).open(format!("/proc/self/fd/{tether}"))?;
    nix::unistd::close(tether)?;
    match pipe.read(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Ok(_) | Err(_) => return Err(io::Error::other("the process outside has ended")),
    }
    setsid()?;
    Ok(())
}

async fn outlive(main: Pid, leftovers: Duration) -> io::Result<u8> {
    let mut ended = signal(SignalKind::child())?;
    let mut asked = signal(SignalKind::terminate())?;
    let mut is_asked = false;
    let code = loop {
        if let Some(code) = collect(main)? {
            break code;
        }
        tokio::select! {
            biased;
            _ = asked.recv() => is_asked = true,
            _ = ended.recv() => {}
        }
    };
    let deadline = Instant::now() + leftovers;
    // All processes of a stopping workspace are signaled together with us; some abort on a second signal.
    if !is_asked {
        // An error means that no process is left to signal.
        let _alone = kill_process_group(Pid::INIT, Signal::TERM);
    }
    while Instant::now() < deadline && !is_alone()? {
        let _pause = timeout(PAUSE, ended.recv()).await;
        collect(main)?;
    }
    Ok(code)
}

/// Reaps all exited children; returns the exit code of the command if it is among them.
fn collect(main: Pid) -> io::Result<Option<u8>> {
    let mut code = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => {
                code = Some(exit_code(ExitStatus::from_raw(status.as_raw())));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(Errno::CHILD) => return Ok(code),
            Err(error) => return Err(error.into()),
        }
    }
}
