//! Encloses the processes of a workspace, so that they see nothing of the fleet's data but their own part.
//!
//! Agents run as the operator's user and keep that user's home, which their logged-in tools need. They must not
//! read the fleet's own data: the operator's token, the Coder token, other workspaces, the memory of the server and
//! of other agents. So everything in a workspace starts through our own program, which creates namespaces and hides
//! the data directory and the store in them.
//!
//! Each start of a workspace has a PID namespace. The process that the server knows stays outside and waits for the
//! first process inside (`init`), which runs the agent. Commands in terminals join these namespaces. When the
//! agent, the init or the process outside ends, the kernel ends everything inside.
//!
//! The enclosure protects against accidental reads and prompt injection. It is no sandbox: services that run
//! commands for this user elsewhere (a container daemon, the user's service manager, ssh to this machine) stay
//! reachable.

mod aliases;
mod enter;
mod error;
mod hidden;
mod init;
mod join;
mod leader;
mod mounts;
mod outer;
mod rights;
mod users;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

pub use enter::{EncloseRequest, ProcessScope, enter};
pub use error::EncloseError;
pub use hidden::DirectoryLocation;
pub use init::init;
pub use join::NamespaceOwner;
pub use leader::lead_terminal;
pub(crate) use outer::status_of_command;
pub use users::map_users;

use error::TRY_AGAIN;
use hidden::HiddenDirectory;

use super::LocalError;
use super::pty::SessionLeader;
use crate::domain::hosting::Isolation;
use crate::process::ProcessId;

/// The hidden command of our program.
pub const COMMAND: &str = "enclose";
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How often a probe is repeated if the machine lacks a resource.
const PROBES: u32 = 3;
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// The enclosure of workspaces, as far as this machine supports it.
#[derive(Debug)]
pub(crate) struct Enclosure {
    program: PathBuf,
    hidden: Vec<HiddenDirectory>,
    /// The lowest level that processes are started with.
    pub(crate) level: Level,
    pub(crate) isolation: Isolation,
}

/// How far processes are enclosed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    #[default]
    None,
    SharedProcesses,
    Enforced,
}

/// Why processes could not be enclosed.
#[derive(Debug)]
struct ProbeFailure {
    reason: String,
    /// A retry may succeed.
    is_transient: bool,
}

/// The access of an enclosed process to directories.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DirectoryAccess<'a> {
    /// Visible although they lie below hidden directories.
    pub(crate) visible: &'a [PathBuf],
    /// Readable and not writable.
    pub(crate) read_only: &'a [PathBuf],
    /// The working directory of the command. The server itself never enters it: an agent may have put a link there
    /// that leads to an unresponsive mount.
    pub(crate) directory: Option<&'a Path>,
}

/// Which terminals a process may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminals {
    /// Only its own, so that the input of others can be neither read nor forged.
    Own,
    /// Those of the machine: in people's shells, programs ask for the name of their terminal.
    Shared,
}

/// The words before a command that make it run enclosed, in its directory.
#[derive(Debug)]
pub(crate) struct EnclosedPrefix {
    pub(crate) prefix: Vec<OsString>,
    /// Which process leads the session of the terminal.
    pub(crate) lead: SessionLeader,
}

impl Enclosure {
    /// Probes how far processes can be enclosed here. If that is less than `floor`, they start at the floor or not
    /// at all.
    pub(crate) async fn probe(program: &Path, hidden: Vec<PathBuf>, floor: Level) -> Self {
        let hidden = hidden.into_iter().map(HiddenDirectory::new).collect();
        let isolation = Isolation::Enforced;
        let mut enclosure = Self { program: program.to_owned(), hidden, level: Level::Enforced, isolation };
        while let Err(reason) = enclosure.attempt().await {
            if enclosure.level <= floor {
                enclosure.isolation = Isolation::Withheld { reason };
                break;
            }
            enclosure.lower(reason);
        }
        enclosure
    }

    /// Whether agents may start now; a transient failure is probed again.
    pub(crate) async fn check(&self) -> Result<(), LocalError> {
        match self.isolation {
            Isolation::Withheld { .. } => {
                self.attempt().await.map_err(|reason| LocalError::Withheld { reason })
            }
            Isolation::Enforced | Isolation::SharedProcesses { .. } | Isolation::Absent { .. } => Ok(()),
        }
    }

    /// Whether this path lies in a hidden directory; then no workspace may be given it. Blocks on the disk.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        let locations = self.locations();
        // Compares device and inode, since a second mount has another path.
        let is_hidden = |path: &Path| {
            path.metadata().is_ok_and(|found| locations.iter().any(|location| location.is(&found)))
        };
        path.canonicalize().is_ok_and(|path| path.ancestors().any(is_hidden))
    }

    /// For a command with namespaces of its own: an agent, or git for one that does not run yet. The command's
    /// processes end with it. Blocks on the disk where something is read-only.
    pub(crate) fn prefix(&self, access: DirectoryAccess<'_>) -> Vec<OsString> {
        match self.level {
            Level::Enforced => self.words(access, Terminals::Own, ProcessScope::Own),
            Level::SharedProcesses => self.words(access, Terminals::Own, ProcessScope::Shared),
            Level::None => self.unenclosed(access),
        }
    }

    /// For a terminal in the workspace of an agent with this process. The command's processes end with the
    /// workspace. A person's shell sees the machine's terminals and processes, so it stays outside. Blocks on the
    /// disk.
    pub(crate) fn inside(
        &self,
        agent: Option<&ProcessId>,
        access: DirectoryAccess<'_>,
        terminals: Terminals,
    ) -> EnclosedPrefix {
        let encloser = match (self.level, terminals) {
            (Level::None, _) => {
                return EnclosedPrefix { prefix: self.unenclosed(access), lead: SessionLeader::Started };
            }
            (Level::Enforced | Level::SharedProcesses, Terminals::Shared) => None,
            // An agent may have been started with another level than the current one.
            (Level::Enforced | Level::SharedProcesses, Terminals::Own) => agent.and_then(NamespaceOwner::of),
        };
        match encloser {
            Some(encloser) => EnclosedPrefix {
                prefix: self.words(access, terminals, ProcessScope::Of(encloser)),
                lead: SessionLeader::Child,
            },
            None => EnclosedPrefix {
                prefix: self.words(access, terminals, ProcessScope::Shared),
                lead: SessionLeader::Started,
            },
        }
    }

    fn words(
        &self,
        access: DirectoryAccess<'_>,
        terminals: Terminals,
        processes: ProcessScope,
    ) -> Vec<OsString> {
        let mut prefix: Vec<OsString> = vec![self.program.clone().into(), COMMAND.into()];
        prefix.extend((terminals == Terminals::Own).then(|| "--own-terminals".into()));
        match processes {
            ProcessScope::Unenclosed => prefix.push("--no-walls".into()),
            ProcessScope::Shared => prefix.extend(self.view(access)),
            ProcessScope::Own => {
                prefix.extend(self.view(access));
                prefix.push("--own-processes".into());
            }
            // The joined mount namespace hides the directories already.
            ProcessScope::Of(encloser) => prefix.extend(["--join".into(), encloser.to_string().into()]),
        }
        let directory = access.directory.into_iter();
        prefix.extend(directory.flat_map(|path| ["--directory".into(), path.into()]));
        prefix.push("--".into());
        prefix
    }

    /// A separate process enters the directory here as well.
    fn unenclosed(&self, access: DirectoryAccess<'_>) -> Vec<OsString> {
        match access.directory {
            Some(_) => self.words(access, Terminals::Shared, ProcessScope::Unenclosed),
            None => Vec::new(),
        }
    }

    /// The arguments that name hidden, visible and read-only paths.
    fn view(&self, access: DirectoryAccess<'_>) -> Vec<OsString> {
        let hidden = outermost(&self.locations())
            .into_iter()
            .flat_map(|location| ["--hide".into(), location.into_argument()]);
        let kept = access.visible.iter().filter_map(|path| self.below(path));
        let kept = kept.flat_map(|path| ["--keep".into(), path.into()]);
        let closed = access.read_only.iter().filter_map(|path| path.canonicalize().ok());
        let closed = closed.flat_map(|path| ["--read-only".into(), path.into()]);
        let named = self.hidden.iter().filter_map(HiddenDirectory::full_name);
        let named = named.flat_map(|path| ["--pin".into(), path.into()]);
        hidden.chain(kept).chain(closed).chain(named).collect()
    }

    fn locations(&self) -> Vec<DirectoryLocation> {
        self.hidden.iter().flat_map(HiddenDirectory::locations).collect()
    }

    /// The current path of something below a hidden directory.
    fn below(&self, path: &Path) -> Option<PathBuf> {
        self.hidden.iter().find_map(|hidden| hidden.below(path))
    }

    /// At the lowest level there is nothing that could fail.
    fn lower(&mut self, reason: String) {
        (self.level, self.isolation) = match self.level {
            Level::Enforced => (Level::SharedProcesses, Isolation::SharedProcesses { reason }),
            Level::SharedProcesses | Level::None => (Level::None, Isolation::Absent { reason }),
        };
    }

    async fn attempt(&self) -> Result<(), String> {
        let prefix = self.prefix(DirectoryAccess::default());
        for _ in 1..PROBES {
            match attempt(&prefix).await {
                Ok(()) => return Ok(()),
                Err(ProbeFailure { is_transient: true, .. }) => tokio::time::sleep(PROBE_PAUSE).await,
                Err(ProbeFailure { reason, is_transient: false }) => return Err(reason),
            }
        }
        attempt(&prefix).await.map_err(|failure| failure.reason)
    }
}

/// A path below a hidden directory is hidden with it.
fn outermost(locations: &[DirectoryLocation]) -> Vec<DirectoryLocation> {
    let is_hidden = |path: &Path| locations.iter().any(|location| location.path == path);
    let is_below = |location: &&DirectoryLocation| location.path.ancestors().skip(1).any(is_hidden);
    locations.iter().filter(|location| !is_below(location)).cloned().collect()
}

/// Without a command the program reports whether it could be enclosed.
async fn attempt(prefix: &[OsString]) -> Result<(), ProbeFailure> {
    let failure = |is_transient| move |reason: String| ProbeFailure { reason, is_transient };
    let Some((program, arguments)) = prefix.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PROBE_LIMIT, command.output()).await;
    let output = output.map_err(|_| "it timed out".to_owned()).map_err(failure(true))?;
    let output = output.map_err(|error| error.to_string()).map_err(failure(true))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
    let reason =
        last.map_or_else(|| output.status.to_string(), |line| line.trim_start_matches("error: ").to_owned());
    Err(failure(output.status.code() == Some(TRY_AGAIN.into()))(reason))
}
