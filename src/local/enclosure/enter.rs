//! Goes behind the walls and becomes the command: what the hidden command of our program does.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::thread::{CapabilitySet, UnshareFlags, remove_capability_from_bounding_set};
use thiserror::Error;

use super::Terminals;
use super::mounts;
use super::users::Users;

/// Standard input, output and error are the command's.
const LAST_STANDARD: RawFd = 2;

/// What to hide from whom.
#[derive(Debug, Clone)]
pub struct Order {
    pub hide: Vec<PathBuf>,
    /// Directories below the hidden ones that stay.
    pub keep: Vec<PathBuf>,
    pub terminals: Terminals,
    /// Nothing: the walls are put up for a try, and taken down by our end.
    pub command: Vec<OsString>,
}

#[derive(Debug, Error)]
pub enum EncloseError {
    #[error("cannot make namespaces")]
    Namespaces(#[source] io::Error),
    #[error("cannot keep the users of this machine")]
    Users(#[source] io::Error),
    #[error("cannot hide {}", path.display())]
    Hide {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot give up the right to change mounts")]
    Rights(#[source] io::Error),
    #[error("cannot close what was open before")]
    Descriptors(#[source] io::Error),
    #[error("cannot work in {}", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start {}", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl EncloseError {
    /// As shells tell a command that is missing from one that fails.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            Self::Namespaces(_)
            | Self::Users(_)
            | Self::Hide { .. }
            | Self::Rights(_)
            | Self::Descriptors(_)
            | Self::Directory { .. } => 125,
        }
    }
}

/// Becomes the command; returns only what kept it from that, or nothing when there was no command. Must be called
/// before any thread is started: the kernel gives new users to a process of one thread only.
pub fn enter(order: &Order) -> Result<(), EncloseError> {
    let directory = std::env::current_dir().map_err(EncloseError::Namespaces)?;
    let users = Users::prepare().map_err(EncloseError::Users)?;
    unshare().map_err(EncloseError::Namespaces)?;
    users.keep().map_err(EncloseError::Users)?;
    mounts::detach().map_err(EncloseError::Namespaces)?;
    for path in &order.hide {
        mounts::hide(path, &order.keep)
            .map_err(|source| EncloseError::Hide { path: path.clone(), source })?;
    }
    if order.terminals == Terminals::Own {
        mounts::own_terminals().map_err(EncloseError::Namespaces)?;
    }
    give_up_mounting().map_err(EncloseError::Rights)?;
    // The directory we came with leads, step by step upwards, past what hides the rest: it is entered anew.
    std::env::set_current_dir(&directory)
        .map_err(|source| EncloseError::Directory { path: directory, source })?;
    become_command(&order.command)
}

#[expect(deprecated, reason = "its successor is unsafe for the sake of a flag that we do not use")]
fn unshare() -> io::Result<()> {
    Ok(rustix::thread::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?)
}

/// Whoever may mount may also unmount. A program that makes users of its own behind our walls gets this right
/// back for its own mounts alone: those it finds are locked for it.
fn give_up_mounting() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    Ok(remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN)?)
}

fn become_command(command: &[OsString]) -> Result<(), EncloseError> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    close_inherited().map_err(EncloseError::Descriptors)?;
    let source = Command::new(program).args(arguments).exec();
    Err(EncloseError::Start { program: program.into(), source })
}

/// Whoever started the server may have had files and sockets open that are nobody's concern here; what we opened
/// ourselves is closed by now, or closes by itself when we become the command.
fn close_inherited() -> io::Result<()> {
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names: Vec<OsString> = names.collect::<io::Result<_>>()?;
    let open = names.iter().filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    for descriptor in open.filter(|descriptor| *descriptor > LAST_STANDARD) {
        // Only that of the listing itself is gone already.
        let _gone = nix::unistd::close(descriptor);
    }
    Ok(())
}
