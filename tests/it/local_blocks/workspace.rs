//! A directory with a marker of its own, in which tests run real processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use fleet_mcp::local::pty::{PtyCommand, PtySpec, SessionLeader};
use fleet_mcp::process::{EndLimits, Marker, ProcessId, ProcessSpec, Spawned, end_tree, find, spawn};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::eventually;

/// Short for the polite signal, long where reaching it would be a failure.
pub(super) const LIMITS: EndLimits =
    EndLimits { term: Duration::from_millis(300), kill: Duration::from_secs(30) };
/// Long enough that a kill can be told from a polite end by what the process managed to do.
pub(super) const PATIENT: EndLimits =
    EndLimits { term: Duration::from_secs(60), kill: Duration::from_secs(30) };

pub(super) struct Workspace {
    pub(super) folder: TempDir,
    pub(super) marker: Marker,
}

impl Workspace {
    pub(super) fn new() -> Self {
        let marker = Marker { key: "FLEET_WORKSPACE".to_owned(), value: Uuid::new_v4().to_string() };
        Self { folder: tempfile::tempdir().unwrap(), marker }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let path = std::env::var("PATH").unwrap();
        BTreeMap::from([("PATH".to_owned(), path), (self.marker.key.clone(), self.marker.value.clone())])
    }

    /// What is started begins in `/`.
    pub(super) fn here(&self, script: &str) -> String {
        format!("cd '{}'\n{script}", self.folder.path().display())
    }

    pub(super) fn spec(&self, script: &str) -> ProcessSpec {
        ProcessSpec {
            prefix: Vec::new(),
            program: "/bin/sh".into(),
            arguments: ["-c", &self.here(script)].map(Into::into).into(),
            environment: self.environment(),
        }
    }

    pub(super) fn spawn(&self, script: &str) -> Spawned {
        spawn(&self.spec(script), Stdio::null(), self.open_log()).unwrap()
    }

    pub(super) fn open_log(&self) -> fs::File {
        fs::File::options().append(true).create(true).open(self.path("log")).unwrap()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// Waits until the processes have said this many lines; they say one each when they stand.
    pub(super) async fn lines(&self, n_lines: usize) -> Vec<String> {
        eventually("the processes report", async || self.log().lines().count() >= n_lines).await;
        self.log().lines().map(str::to_owned).collect()
    }

    pub(super) fn found(&self) -> Vec<ProcessId> {
        find(&self.marker).unwrap()
    }

    /// Waits until exactly so many processes of the workspace run.
    pub(super) async fn settled(&self, n_processes: usize) -> Vec<ProcessId> {
        eventually("the processes stand", async || self.found().len() == n_processes).await;
        self.found()
    }

    pub(super) async fn end(&self) -> usize {
        end_tree(&self.marker, LIMITS).await.unwrap()
    }

    pub(super) fn terminal(&self, script: &str) -> PtySpec {
        PtySpec {
            lead: SessionLeader::Started,
            prefix: Vec::new(),
            command: PtyCommand::Script(self.here(script)),
            environment: self.environment(),
            width: 80,
            height: 24,
        }
    }
}

/// Kills it alone; that it ended meanwhile is as good.
pub(super) fn kill(process: &ProcessId) {
    let pid = Pid::from_raw(process.pid.cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).ok();
}

/// A test that fails half-way leaves nothing running: its processes are killed without further questions.
impl Drop for Workspace {
    fn drop(&mut self) {
        self.found().iter().for_each(kill);
    }
}
