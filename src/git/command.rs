//! Runs git commands without starting other programs, without prompts, and with bounded output.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};

use super::bounded;
use super::quiet::{self, FOREIGN, LIST, Reach};

const VERSION_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub(crate) enum GitError {
    #[error("start git")]
    Start(#[source] io::Error),
    #[error("read the output of git {command}")]
    Flood {
        command: String,
        #[source]
        source: io::Error,
    },
    #[error("git {command}: {}", if stderr.is_empty() { status.to_string() } else { stderr.clone() })]
    Failed {
        command: String,
        status: ExitStatus,
        /// Trimmed; empty if git was killed.
        stderr: String,
    },
}

/// How git is called: its environment, and the command before it.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    prefix: Vec<OsString>,
    inherited: Inherited,
    /// Overrides inherited variables.
    environment: BTreeMap<String, String>,
    reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inherited {
    /// This process's environment without the variables that would redirect git.
    Environment,
    Nothing,
}

/// The version of the git on PATH; none if it does not work or does not answer in time.
pub(crate) async fn version() -> Option<String> {
    let git = Git::of_process(Reach::Local);
    let answer = tokio::time::timeout(VERSION_LIMIT, git.run(Path::new("/"), &["--version"])).await;
    Some(answer.ok()?.ok()?.trim().to_owned())
}

/// Runs one command in a directory that agents can write to: starts no program that its repository configures.
pub(crate) async fn run(directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let git = Git::of_process(Reach::Local).without_drivers(directory).await?;
    git.run(directory, arguments).await
}

impl Git {
    /// With the environment of this process.
    pub(crate) fn of_process(reach: Reach) -> Self {
        let environment = quiet::environment(reach);
        Self { prefix: Vec::new(), inherited: Inherited::Environment, environment, reach }
    }

    /// With this environment alone, after a command that executes git after a preparation.
    pub(crate) fn behind(
        prefix: Vec<OsString>,
        mut environment: BTreeMap<String, String>,
        reach: Reach,
    ) -> Self {
        environment.extend(quiet::environment(reach));
        Self { prefix, inherited: Inherited::Nothing, environment, reach }
    }

    pub(crate) fn with_variable(mut self, name: String, value: String) -> Self {
        self.environment.insert(name, value);
        self
    }

    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// For commands that run filters or drivers: disables those configured for this directory as well.
    pub(crate) async fn without_drivers(mut self, directory: &Path) -> Result<Self, GitError> {
        let listing = self.run(directory, &LIST).await?;
        self.environment.extend(quiet::environment_after(self.reach, &listing));
        Ok(self)
    }

    /// Git's standard output.
    pub(crate) async fn run<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
    ) -> Result<String, GitError> {
        let output = bounded::run(self.command(directory, arguments)).await;
        output_of(output, &word_of(arguments))
    }

    /// Like `run`, with this text on standard input.
    pub(crate) async fn feed<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
        input: &str,
    ) -> Result<String, GitError> {
        let mut command = self.command(directory, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(GitError::Start)?;
        let stdin = child.stdin.take();
        let ((), output) = tokio::join!(fill(stdin, input), bounded::output_of(child));
        output_of(output, &word_of(arguments))
    }

    /// A command that is not started yet; it is killed when its handle is dropped.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, directory: &Path, arguments: &[A]) -> Command {
        let mut words = self.prefix.iter().map(OsString::as_os_str).chain([OsStr::new("git")]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).kill_on_drop(true);
        match self.inherited {
            Inherited::Nothing => {
                // The thread that starts a process waits until the process has entered its working directory, so
                // git enters the directory itself.
                command.env_clear().current_dir("/");
            }
            Inherited::Environment => {
                for name in FOREIGN {
                    command.env_remove(name);
                }
            }
        }
        command.envs(&self.environment).arg("-C").arg(directory).args(arguments);
        command
    }
}

/// The output of a git that has exited, or why it failed.
pub(crate) fn output_of(output: io::Result<Output>, command: &str) -> Result<String, GitError> {
    let command = command.to_owned();
    let output = output.map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => GitError::Flood { command: command.clone(), source },
        _ => GitError::Start(source),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(GitError::Failed { command, status: output.status, stderr })
}

fn word_of<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    let mut words = arguments.iter().map(|argument| argument.as_ref().to_string_lossy());
    words.find(|word| !word.starts_with('-')).map(|word| word.into_owned()).unwrap_or_default()
}

/// A git that does not read all input reports the reason itself.
async fn fill(stdin: Option<ChildStdin>, input: &str) {
    if let Some(mut stdin) = stdin {
        let _unread = stdin.write_all(input.as_bytes()).await;
    }
}
