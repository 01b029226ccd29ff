//! The process outside of a PID namespace: starts our own program as the first or as one more process inside, and
//! lives exactly as long as that.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::COMMAND;
use super::error::EncloseError;

/// What a shell adds to the number of a signal that ended a command.
const SIGNALED: i32 = 128;

/// The first process of a new namespace supervises the command. It inherits the reading end of a pipe whose other end
/// closes when we die.
pub(super) fn run_init(command: &[OsString]) -> Result<u8, EncloseError> {
    let (alive, tether) = io::pipe().map_err(EncloseError::Supervise)?;
    fcntl_setfd(&alive, FdFlags::empty()).map_err(|error| EncloseError::Supervise(error.into()))?;
    let code = run(&["--init", &alive.as_raw_fd().to_string()], command);
    drop(tether);
    code
}

/// One more process of a namespace leads a session on the terminal that is our standard input. We have none, so that it
/// can have that one.
pub(super) fn run_leader(command: &[OsString]) -> Result<u8, EncloseError> {
    // A failure means that we lead a session already.
    let _leads = rustix::process::setsid();
    run(&["--lead-terminal"], command)
}

fn run(mode: &[&str], command: &[OsString]) -> Result<u8, EncloseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.and_then(|runtime| {
        runtime.block_on(async {
            ignore_polite_signals()?;
            // Resolved by the child, which the workspace's /proc shows; it does not show us.
            let mut child =
                Command::new("/proc/self/exe").arg(COMMAND).args(mode).arg("--").args(command).spawn()?;
            let_go_of_input()?;
            child.wait().await
        })
    });
    ended.map(exit_code).map_err(EncloseError::Supervise)
}

/// Standard input may be a socket that the command alone should hold: with its end it must refuse.
pub(super) fn let_go_of_input() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
}

/// The processes inside are asked to end one by one, as they are without a namespace. We end with them.
fn ignore_polite_signals() -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()] {
        // A handler stays when its stream is dropped.
        drop(signal(kind)?);
    }
    Ok(())
}

/// How an enclosed command itself ended: the process around it passes a signal on as an exit code, as shells do.
pub(crate) fn true_end(status: ExitStatus) -> ExitStatus {
    status.code().filter(|code| *code > SIGNALED).map_or(status, |code| ExitStatus::from_raw(code - SIGNALED))
}

pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(SIGNALED + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
