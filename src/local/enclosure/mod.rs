//! Encloses the processes of a workspace, so that they see nothing of the fleet's data but their own part.
//!
//! Agents run as the operator's user and keep that user's home, or their logged-in tools would not work. What
//! they must not have is the fleet itself: the operator's token, the Coder's token, other workspaces, the memory
//! of the server and of other agents. So everything in a workspace starts through our own program, which takes
//! namespaces of its own, hides the data directory and a store elsewhere there and then becomes the process that was asked for; pid,
//! start time, session and environment stay what they were.
//!
//! It keeps agents from reading, by accident or by injected words. It is no sandbox: whatever runs commands for
//! this user elsewhere (a container daemon, a session's service manager, ssh to this machine) is still there.

mod enter;
mod mounts;
mod users;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

pub use enter::{EncloseError, Order, enter};
pub use users::map_users;

use crate::domain::hosting::Isolation;

/// The hidden command of our program.
const COMMAND: &str = "enclose";
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Walls around workspaces, if this machine lets us have them.
#[derive(Debug)]
pub(crate) struct Enclosure {
    program: PathBuf,
    hidden: Vec<PathBuf>,
    pub(crate) isolation: Isolation,
}

/// Which terminals a process may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminals {
    /// Only its own: nobody else's input can be read or forged.
    Own,
    /// Those of the machine, for people's shells, in which programs ask for the name of their terminal.
    Shared,
}

impl Enclosure {
    /// Tries whether processes can be enclosed here.
    pub(crate) async fn probe(program: &Path, hidden: Vec<PathBuf>) -> Self {
        let mut enclosure = Self { program: program.to_owned(), hidden, isolation: Isolation::Enforced };
        if let Err(reason) = attempt(&enclosure.prefix(&[] as &[&Path], Terminals::Own)).await {
            enclosure.isolation = Isolation::Absent { reason };
        }
        enclosure
    }

    /// Is this among what no workspace may see? Then none may be given it either.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        there(&[path]).any(|path| there(&self.hidden).any(|hidden| path.starts_with(hidden)))
    }

    /// What stands before a command so that it runs enclosed and sees these directories all the same; nothing
    /// where there are no walls.
    pub(crate) fn prefix(&self, keep: &[impl AsRef<Path>], terminals: Terminals) -> Vec<OsString> {
        match self.isolation {
            Isolation::Enforced => {}
            Isolation::Absent { .. } => return Vec::new(),
        }
        let mut prefix: Vec<OsString> = vec![self.program.clone().into(), COMMAND.into()];
        prefix.extend(outermost(&self.hidden).into_iter().flat_map(|path| ["--hide".into(), path.into()]));
        prefix.extend(there(keep).flat_map(|path| ["--keep".into(), path.into()]));
        prefix.extend((terminals == Terminals::Own).then(|| "--own-terminals".into()));
        prefix.push("--".into());
        prefix
    }
}

/// What is not there needs no hiding; the rest goes by its true name, or it would be missed.
fn there(paths: &[impl AsRef<Path>]) -> impl Iterator<Item = PathBuf> {
    paths.iter().filter_map(|path| path.as_ref().canonicalize().ok())
}

/// What lies below something hidden is hidden with it.
fn outermost(paths: &[PathBuf]) -> Vec<PathBuf> {
    let all: Vec<PathBuf> = there(paths).collect();
    let is_below = |path: &&PathBuf| path.ancestors().skip(1).any(|above| all.iter().any(|one| one == above));
    all.iter().filter(|path| !is_below(path)).cloned().collect()
}

/// Enclosed without a command, the program tells whether it could be.
async fn attempt(prefix: &[OsString]) -> Result<(), String> {
    let (program, arguments) = prefix.split_first().ok_or("there is nothing to try")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PROBE_LIMIT, command.output()).await;
    let output = output.map_err(|_| "it takes too long")?.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| output.status.to_string(), |line| line.trim_start_matches("error: ").to_owned()))
}
