//! Starts a process in its own session, with a complete environment and a log file for its output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::process::Command;

use super::{ProcessId, restore_for_children};

/// What to start.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// A program that executes the command after a preparation, such as entering a directory; may be empty.
    pub prefix: Vec<OsString>,
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Complete: nothing is inherited.
    pub environment: BTreeMap<String, String>,
}

/// A started process. Dropping this leaves it running; it is still reaped.
#[derive(Debug)]
pub struct Spawned {
    pub id: ProcessId,
    child: Box<dyn ChildWrapper>,
}

impl Spawned {
    /// The status of the process itself, independent of its children.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }
}

/// Starts it as the leader of a new session, so that no signal to our terminal or group reaches it. Requires a
/// tokio runtime. Standard output and error go to the log.
pub fn spawn(spec: &ProcessSpec, stdin: Stdio, log: File) -> io::Result<Spawned> {
    let mut words = spec.prefix.iter().map(OsString::as_os_str).chain([spec.program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap_or(spec.program.as_os_str()));
    command
        .args(words)
        .args(&spec.arguments)
        // The thread that starts a process waits until the process has entered its directory.
        .current_dir("/")
        .env_clear()
        .envs(&spec.environment);
    command.stdin(stdin).stdout(log.try_clone()?).stderr(log);
    restore_for_children()?;
    // The outer handle would wait for the whole group, and a remaining child would hide the exit.
    let child = CommandWrap::from(command).wrap(ProcessSession).spawn()?.into_inner();
    let pid = child.id().ok_or_else(|| io::Error::other("a process that just started has no pid"))?;
    Ok(Spawned { id: ProcessId::of(pid)?, child })
}
