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

pub use enter::{Order, Processes, enter};
pub use error::EncloseError;
pub use hidden::Place;
pub use init::init;
pub use join::Encloser;
pub use leader::lead_terminal;
pub(crate) use outer::true_end;
pub use users::map_users;

use error::TRY_AGAIN;
use hidden::Hidden;

use super::LocalError;
use super::pty::Lead;
use crate::domain::hosting::Isolation;
use crate::process::ProcessId;

/// The hidden command of our program.
const COMMAND: &str = "enclose";
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How often a probe is repeated if the machine lacks a resource.
const PROBES: u32 = 3;
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// The enclosure of workspaces, as far as this machine supports it.
#[derive(Debug)]
pub(crate) struct Enclosure {
    program: PathBuf,
    hidden: Vec<Hidden>,
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
struct Failure {
    reason: String,
    /// A retry may succeed.
    is_transient: bool,
}

/// The access of an enclosed process to directories.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sight<'a> {
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
pub(crate) struct Walls {
    pub(crate) prefix: Vec<OsString>,
    /// Which process leads the session of the terminal.
    pub(crate) lead: Lead,
}

impl Enclosure {
    /// Probes how far processes can be enclosed here. If that is less than `floor`, they start at the floor or not
    /// at all.
    pub(crate) async fn probe(program: &Path, hidden: Vec<PathBuf>, floor: Level) -> Self {
        let hidden = hidden.into_iter().map(Hidden::new).collect();
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
        let places = self.places();
        // Compares device and inode, since a second mount has another path.
        let is_hidden =
            |path: &Path| path.metadata().is_ok_and(|found| places.iter().any(|place| place.is(&found)));
        path.canonicalize().is_ok_and(|path| path.ancestors().any(is_hidden))
    }

    /// For a command with namespaces of its own: an agent, or git for one that does not run yet. The command's
    /// processes end with it. Blocks on the disk where something is read-only.
    pub(crate) fn prefix(&self, sight: Sight<'_>) -> Vec<OsString> {
        match self.level {
            Level::Enforced => self.words(sight, Terminals::Own, Processes::Own),
            Level::SharedProcesses => self.words(sight, Terminals::Own, Processes::Shared),
            Level::None => self.without_walls(sight),
        }
    }

    /// For a terminal in the workspace of an agent with this process. The command's processes end with the
    /// workspace. A person's shell sees the machine's terminals and processes, so it stays outside. Blocks on the
    /// disk.
    pub(crate) fn inside(&self, agent: Option<&ProcessId>, sight: Sight<'_>, terminals: Terminals) -> Walls {
        let encloser = match (self.level, terminals) {
            (Level::None, _) => {
                return Walls { prefix: self.without_walls(sight), lead: Lead::Started };
            }
            (Level::Enforced | Level::SharedProcesses, Terminals::Shared) => None,
            // An agent may have been started with another level than the current one.
            (Level::Enforced | Level::SharedProcesses, Terminals::Own) => agent.and_then(Encloser::of),
        };
        match encloser {
            Some(encloser) => {
                Walls { prefix: self.words(sight, terminals, Processes::Of(encloser)), lead: Lead::ItsChild }
            }
            None => Walls { prefix: self.words(sight, terminals, Processes::Shared), lead: Lead::Started },
        }
    }

    fn words(&self, sight: Sight<'_>, terminals: Terminals, processes: Processes) -> Vec<OsString> {
        let mut prefix: Vec<OsString> = vec![self.program.clone().into(), COMMAND.into()];
        prefix.extend((terminals == Terminals::Own).then(|| "--own-terminals".into()));
        match processes {
            Processes::Unenclosed => prefix.push("--no-walls".into()),
            Processes::Shared => prefix.extend(self.view(sight)),
            Processes::Own => {
                prefix.extend(self.view(sight));
                prefix.push("--own-processes".into());
            }
            // The joined mount namespace hides the directories already.
            Processes::Of(encloser) => prefix.extend(["--join".into(), encloser.to_string().into()]),
        }
        let directory = sight.directory.into_iter();
        prefix.extend(directory.flat_map(|path| ["--directory".into(), path.into()]));
        prefix.push("--".into());
        prefix
    }

    /// A separate process enters the directory here as well.
    fn without_walls(&self, sight: Sight<'_>) -> Vec<OsString> {
        match sight.directory {
            Some(_) => self.words(sight, Terminals::Shared, Processes::Unenclosed),
            None => Vec::new(),
        }
    }

    /// The arguments that name hidden, visible and read-only paths.
    fn view(&self, sight: Sight<'_>) -> Vec<OsString> {
        let hidden =
            outermost(&self.places()).into_iter().flat_map(|place| ["--hide".into(), place.into_word()]);
        let kept = sight.visible.iter().filter_map(|path| self.below(path));
        let kept = kept.flat_map(|path| ["--keep".into(), path.into()]);
        let closed = sight.read_only.iter().filter_map(|path| path.canonicalize().ok());
        let closed = closed.flat_map(|path| ["--read-only".into(), path.into()]);
        let named = self.hidden.iter().filter_map(Hidden::full_name);
        let named = named.flat_map(|path| ["--pin".into(), path.into()]);
        hidden.chain(kept).chain(closed).chain(named).collect()
    }

    fn places(&self) -> Vec<Place> {
        self.hidden.iter().flat_map(Hidden::places).collect()
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
        let prefix = self.prefix(Sight::default());
        for _ in 1..PROBES {
            match attempt(&prefix).await {
                Ok(()) => return Ok(()),
                Err(Failure { is_transient: true, .. }) => tokio::time::sleep(PROBE_PAUSE).await,
                Err(Failure { reason, is_transient: false }) => return Err(reason),
            }
        }
        attempt(&prefix).await.map_err(|failure| failure.reason)
    }
}

/// A path below a hidden directory is hidden with it.
fn outermost(places: &[Place]) -> Vec<Place> {
    let is_hidden = |path: &Path| places.iter().any(|place| place.path == path);
    let is_below = |place: &&Place| place.path.ancestors().skip(1).any(is_hidden);
    places.iter().filter(|place| !is_below(place)).cloned().collect()
}

/// Without a command the program reports whether it could be enclosed.
async fn attempt(prefix: &[OsString]) -> Result<(), Failure> {
    let failure = |is_transient| move |reason: String| Failure { reason, is_transient };
    let Some((program, arguments)) = prefix.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PROBE_LIMIT, command.output()).await;
    let output = output.map_err(|_| "it takes too long".to_owned()).map_err(failure(true))?;
    let output = output.map_err(|error| error.to_string()).map_err(failure(true))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let reason =
        last.map_or_else(|| output.status.to_string(), |line| line.trim_start_matches("error: ").to_owned());
    Err(failure(output.status.code() == Some(TRY_AGAIN.into()))(reason))
}
