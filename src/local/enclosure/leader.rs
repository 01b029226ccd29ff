//! Replaces this process by the command, as session leader if it has a terminal.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, ioctl_tiocsctty, set_parent_process_death_signal, setsid};

use super::error::EncloseError;

/// Replaces this process by the command, which leads a session on the terminal at standard input. It ends with the
/// process outside that waits for it.
pub fn lead_terminal(command: &[OsString]) -> Result<u8, EncloseError> {
    take_terminal().map_err(EncloseError::Terminal)?;
    become_command(command)
}

/// Returns only if the program could not start, or if there is none.
pub(super) fn become_command(command: &[OsString]) -> Result<u8, EncloseError> {
    let Some((program, arguments)) = command.split_first() else { return Ok(0) };
    let source = Command::new(program).args(arguments).exec();
    Err(EncloseError::Start { program: program.into(), source })
}

fn take_terminal() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setsid()?;
    Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
}
