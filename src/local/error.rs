//! Reasons why the embedded Coder could not start or a build failed.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum LocalError {
    #[error("cannot use {path}")]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the state file {path}: {problem}; move it away to continue without it")]
    StateFile { path: PathBuf, problem: String },
    #[error("cannot listen on {address}: another program may use the port; choose another one, or port 0")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: Arc<io::Error>,
    },
    #[error("{path} already exists and belongs to no workspace; move it away and try again")]
    Occupied { path: PathBuf },
    #[error("git was not found on the PATH: install git and start the workspace again")]
    NoGit,
    #[error("cannot run git")]
    Git(#[source] io::Error),
    #[error("git could not {doing}: {output}")]
    GitRefused { doing: String, output: String },
    #[error(
        "'{0}' cannot be used as a repository address or branch: git could take it for an option or a command; \
        correct repo or branch in the project file"
    )]
    BadReference(String),
    #[error("{path} is not a git repository: run 'git init' and make a first commit there")]
    NotARepository { path: PathBuf },
    #[error("{path} belongs to the fleet's own data: work in a repository elsewhere")]
    OwnData { path: PathBuf },
    #[error(
        "agents cannot be isolated as before; run 'fleet-mcp doctor' to see why and what to do: {reason}"
    )]
    Withheld { reason: String },
    #[error("{path} did not respond within {seconds} s; it may be on a mount that hangs")]
    NoAnswer { path: PathBuf, seconds: u64 },
    #[error("template '{0}' no longer exists")]
    NoTemplate(String),
    #[error("cannot start {program}")]
    Runner {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the agent's process ended before it was ready: {output}")]
    RunnerEnded { output: String },
    #[error("the agent's process was killed by signal {signal} before it was ready")]
    RunnerKilled { signal: i32 },
    #[error("some processes of the workspace could not be terminated")]
    Unending(#[source] io::Error),
    #[error("the build was canceled")]
    Canceled,
    #[error(
        "the build took longer than {seconds} s and was stopped; read its log for the blocked step, then repeat the \
        operation"
    )]
    TooLong { seconds: u64 },
    #[error(
        "the agent's process ended {n_ends} times within {minutes} minutes, so it is not restarted \
        automatically; read its log, then start the agent"
    )]
    KeepsEnding { n_ends: usize, minutes: i64 },
}

impl LocalError {
    pub(crate) fn directory(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::Directory { path, source }
    }

    /// The error and its causes on one line, as build logs and answers show it.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
