//! Sets up the enclosure and starts the command in it: the implementation of the hidden `enclose` command.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use rustix::thread::UnshareFlags;

use super::aliases::Mounts;
use super::error::EncloseError;
use super::hidden::DirectoryLocation;
use super::users::Users;
use super::{NamespaceOwner, Terminals, join, leader, mounts, outer, rights};

/// Standard input, output and error belong to the command.
const LAST_STANDARD: RawFd = 2;

/// A request to run a command enclosed.
#[derive(Debug, Clone)]
pub struct EncloseRequest {
    pub hide: Vec<DirectoryLocation>,
    /// Directories below the hidden ones that stay visible.
    pub keep: Vec<PathBuf>,
    /// Paths that the command may read and not change.
    pub read_only: Vec<PathBuf>,
    /// Paths whose meaning must not change: no link and no directory on the way can be replaced.
    pub pin: Vec<PathBuf>,
    pub terminals: Terminals,
    pub processes: ProcessScope,
    /// The command's working directory; by default that of this process.
    pub directory: Option<PathBuf>,
    /// Empty for a probe: the enclosure is set up, and ends with this process.
    pub command: Vec<OsString>,
}

/// Which processes the command sees, can signal and leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessScope {
    /// Those of the machine, without hiding anything: only the directory is entered.
    Unenclosed,
    /// Those of the machine. The command replaces this process.
    Shared,
    /// Only its descendants, in a PID namespace that ends with the command or with this process.
    Own,
    /// Those of a running workspace, in whose namespaces the command takes over the terminal.
    Of(NamespaceOwner),
}

/// Runs the command and returns its exit code, unless it replaces this process. Must be called before any thread is
/// started: the kernel creates user namespaces for single-threaded processes only.
pub fn enter(request: &EncloseRequest) -> Result<u8, EncloseError> {
    close_inherited().map_err(EncloseError::Descriptors)?;
    let directory = match &request.directory {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(EncloseError::Namespaces)?,
    };
    match request.processes {
        ProcessScope::Unenclosed => {
            enter_directory(directory)?;
            leader::become_command(&request.command)
        }
        ProcessScope::Shared => {
            enclose(request, UnshareFlags::empty())?;
            mounts::protect_machine().map_err(EncloseError::Machine)?;
            rights::give_up_mounting().map_err(EncloseError::Rights)?;
            enter_directory(directory)?;
            leader::become_command(&request.command)
        }
        ProcessScope::Own => {
            enclose(request, UnshareFlags::NEWPID)?;
            rights::pass_on_mounting().map_err(EncloseError::Rights)?;
            enter_directory(directory)?;
            outer::run_init(&request.command)
        }
        ProcessScope::Of(encloser) => {
            rights::forbid_tracing().map_err(EncloseError::Rights)?;
            join::enter(encloser).map_err(|source| EncloseError::Join { pid: encloser.pid, source })?;
            // Our child belongs to the workspace's processes before it becomes the command.
            rights::give_up_mounting().map_err(EncloseError::Rights)?;
            enter_directory(directory)?;
            outer::run_leader(&request.command)
        }
    }
}

fn enclose(request: &EncloseRequest, more: UnshareFlags) -> Result<(), EncloseError> {
    let users = Users::prepare().map_err(EncloseError::Users)?;
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS | more).map_err(EncloseError::Namespaces)?;
    users.keep().map_err(EncloseError::Users)?;
    set_up_mounts(request)
}

fn set_up_mounts(request: &EncloseRequest) -> Result<(), EncloseError> {
    mounts::detach().map_err(EncloseError::Namespaces)?;
    let request = &with_aliases(request)?;
    for location in &request.hide {
        mounts::hide(location, &request.keep)
            .map_err(|source| EncloseError::Hide { path: location.path.clone(), source })?;
    }
    for path in &request.read_only {
        mounts::protect(path).map_err(|source| EncloseError::Protect { path: path.clone(), source })?;
    }
    // Last, so that each of these recursive mounts contains the hidden and read-only mounts. A command that
    // detaches its mounts can rename directories below them; they stay hidden in every mount that it can reach.
    for path in names_above(request) {
        mounts::pin(path).map_err(|source| EncloseError::Pin { path: path.to_owned(), source })?;
    }
    match request.terminals {
        Terminals::Own => mounts::own_terminals().map_err(EncloseError::Namespaces),
        Terminals::Shared => Ok(()),
    }
}

/// Hides or protects each path under all its aliases as well. Innermost first, since a hidden path can no longer be
/// resolved.
fn with_aliases(request: &EncloseRequest) -> Result<EncloseRequest, EncloseError> {
    let mounts = Mounts::read().map_err(EncloseError::Namespaces)?;
    let mut request = request.clone();
    for location in request.hide.clone() {
        let aliases = mounts.aliases(&location.path, &request.keep);
        let aliases = aliases.map_err(|source| EncloseError::Hide { path: location.path, source })?;
        request.hide.extend(aliases);
    }
    for path in request.read_only.clone() {
        let aliases = mounts.aliases(&path, &[]);
        let aliases = aliases.map_err(|source| EncloseError::Protect { path: path.clone(), source })?;
        request.read_only.extend(aliases.into_iter().map(|location| location.path));
    }
    request.hide.sort_by(|one, other| other.path.cmp(&one.path));
    request.hide.dedup();
    Ok(request)
}

/// The directories above hidden and read-only paths, and the links on the way, outermost first. A command that
/// could replace one of them could present its own tree to the server and its operator.
fn names_above(request: &EncloseRequest) -> BTreeSet<&Path> {
    let hidden = request.hide.iter().map(|location| location.path.as_path());
    let locations: Vec<&Path> = hidden.chain(request.read_only.iter().map(PathBuf::as_path)).collect();
    // The command can rename nothing below a hidden or read-only directory.
    let is_within = |path: &Path| locations.iter().any(|location| path.starts_with(location));
    let above = locations.iter().flat_map(|location| location.ancestors().skip(1));
    let named = request.pin.iter().flat_map(|path| path.ancestors());
    above.chain(named).filter(|path| path.parent().is_some() && !is_within(path)).collect()
}

/// Entered inside the enclosure: the inherited directory would lead upwards past the mounts that hide the rest.
fn enter_directory(directory: PathBuf) -> Result<(), EncloseError> {
    std::env::set_current_dir(&directory)
        .map_err(|source| EncloseError::Directory { path: directory, source })
}

#[expect(deprecated, reason = "its successor is unsafe for the sake of a flag that we do not use")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}

/// The server's parent may have left files and sockets open, which the command must not inherit.
fn close_inherited() -> io::Result<()> {
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names: Vec<OsString> = names.collect::<io::Result<_>>()?;
    let open = names.iter().filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    for descriptor in open.filter(|descriptor| *descriptor > LAST_STANDARD) {
        // Fails only for the descriptor of the listing itself, which is already closed.
        let _gone = nix::unistd::close(descriptor);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_above_a_place_is_pinned_once_and_none_within_another_place() {
        let location = |path: &str| DirectoryLocation { path: path.into(), device: 1, inode: 1 };
        let request = EncloseRequest {
            hide: vec![location("/home/u/.local/share/fleet"), location("/home/u/repo/.git/store")],
            keep: vec!["/home/u/.local/share/fleet/workspaces/a".into()],
            read_only: vec!["/home/u/repo/.git".into(), "/home/u/.local/share/fleet/x/.git".into()],
            pin: vec!["/home/u/.local/share/fleet".into(), "/home/u/link/fleet".into()],
            terminals: Terminals::Own,
            processes: ProcessScope::Own,
            directory: None,
            command: Vec::new(),
        };
        let above: Vec<&Path> = names_above(&request).into_iter().collect();
        let expected = [
            "/home",
            "/home/u",
            "/home/u/.local",
            "/home/u/.local/share",
            "/home/u/link",
            "/home/u/link/fleet",
            "/home/u/repo",
        ];
        assert_eq!(above, expected.map(Path::new));
    }
}
