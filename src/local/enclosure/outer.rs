//! The process outside of a PID namespace: starts our own program inside, as init or as a further process, and
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

/// Shells add this to the number of the signal that ended a command.
const SIGNALED: i32 = 128;

/// Runs the command under the init of a new namespace. Init inherits the reading end of a pipe whose other end
/// closes when we die.
pub(super) fn run_init(command: &[OsString]) -> Result<u8, EncloseError> {
    let (alive, tether) = io::pipe().map_err(EncloseError::Supervise)?;
    fcntl_setfd(&alive, FdFlags::empty()).map_err(|error| EncloseError::Supervise(error.into()))?;
    let code = run(&["--init", &alive.as_raw_fd().to_string()], command);
    drop(tether);
    code
}

/// Runs the command as leader of a session on the terminal at standard input. We give the terminal up, so that the
/// command can take it.
pub(super) fn run_leader(command: &[OsString]) -> Result<u8, EncloseError> {
    // An error means that we already lead a session.
    let _leads = rustix::process::setsid();
    run(&["--lead-terminal"], command)
}

fn run(mode: &[&str], command: &[OsString]) -> Result<u8, EncloseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.and_then(|runtime| {
        runtime.block_on(async {
            ignore_polite_signals()?;
            // `/proc/self/exe` is resolved by the child: the workspace's /proc shows the child and not us.
            let mut child =
                Command::new("/proc/self/exe").arg(COMMAND).args(mode).arg("--").args(command).spawn()?;
            release_input()?;
            child.wait().await
        })
    });
    ended.map(exit_code).map_err(EncloseError::Supervise)
}

/// Standard input may be a socket that only the command should hold: connections must be refused once it ends.
pub(super) fn release_input() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
}

/// On a stop the processes inside are signaled one by one. We end with them.
fn ignore_polite_signals() -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()] {
        // The handler stays after its stream is dropped.
        drop(signal(kind)?);
    }
    Ok(())
}

/// The status of the enclosed command: the enclosing process reports a signal as an exit code, as shells do.
pub(crate) fn status_of_command(status: ExitStatus) -> ExitStatus {
    status.code().filter(|code| *code > SIGNALED).map_or(status, |code| ExitStatus::from_raw(code - SIGNALED))
}

pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(SIGNALED + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
