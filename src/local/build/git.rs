//! Runs git for a workspace: enclosed, without programs that a repository configures, without prompts.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use tokio::process::Command;

use super::marker;
use super::work::Work;
use crate::git::quiet::Reach;
use crate::git::{self, GitError};
use crate::local::enclosure::{DirectoryAccess, status_of_command};
use crate::local::environment;
use crate::local::{Deployment, LocalError, LocalLimits};
use crate::process::Marker;

/// The enclosure's exit code for a missing program; git itself does not use it.
const NOT_FOUND: i32 = 127;
/// Longer runs in a local repository mean that git is blocked by something an agent has put there.
const LOCAL_LIMIT: Duration = Duration::from_secs(30);
/// How much of git's error output is shown.
const LONGEST_OUTPUT: usize = 2_000;

/// Runs git for one workspace.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    git: git::Git,
    limits: LocalLimits,
}

impl Git {
    /// Enclosed like everything in a workspace; a cancel finds it by the workspace's marker.
    pub(super) fn of(work: &Work, visible: &[&Path], reach: Reach) -> Self {
        let visible: Vec<_> = visible.iter().map(|path| (*path).to_owned()).collect();
        let access = DirectoryAccess { visible: &visible, ..DirectoryAccess::default() };
        Self::new(&work.deployment, access, reach).marked(marker(work.workspace.id))
    }

    pub(crate) fn new(deployment: &Deployment, access: DirectoryAccess<'_>, reach: Reach) -> Self {
        let environment = environment::inherited(std::env::vars_os());
        let git = git::Git::behind(deployment.enclosure.prefix(access), environment, reach);
        Self { git, limits: deployment.options.limits }
    }

    pub(crate) fn marked(self, marker: Marker) -> Self {
        Self { git: self.git.with_variable(marker.key, marker.value), ..self }
    }

    /// For commands that run filters or drivers: disables those configured for this directory as well.
    pub(super) async fn without_drivers(self, directory: &Path) -> Result<Self, LocalError> {
        let (reach, doing) = (self.git.reach(), "list the settings");
        let git = limited(reach, self.git.without_drivers(directory), doing).await?;
        Ok(Self { git, ..self })
    }

    pub(crate) fn limits(&self) -> &LocalLimits {
        &self.limits
    }

    /// Runs git and returns its output, or its error; `doing` completes "git could not …".
    pub(crate) async fn run<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
        doing: &str,
    ) -> Result<String, LocalError> {
        let printed = limited(self.git.reach(), self.git.run(directory, arguments), doing).await?;
        Ok(printed.trim().to_owned())
    }

    /// Like `run`, with this text on standard input.
    pub(crate) async fn feed<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
        input: &str,
        doing: &str,
    ) -> Result<String, LocalError> {
        let printed = limited(self.git.reach(), self.git.feed(directory, arguments, input), doing).await?;
        Ok(printed.trim().to_owned())
    }

    /// A git command that is not started yet; it is killed when its handle is dropped.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, directory: &Path, arguments: &[A]) -> Command {
        self.git.command(directory, arguments)
    }
}

/// Fetches have no limit of their own: the build's deadline or a cancel ends them.
async fn limited<T>(
    reach: Reach,
    answer: impl Future<Output = Result<T, GitError>>,
    doing: &str,
) -> Result<T, LocalError> {
    let answer = match reach {
        Reach::Network | Reach::Files => answer.await,
        Reach::Local => tokio::time::timeout(LOCAL_LIMIT, answer)
            .await
            .map_err(|_| refused(doing, format!("no response within {} s", LOCAL_LIMIT.as_secs())))?,
    };
    answer.map_err(|error| failed(error, doing))
}

/// The result of a git process that has exited.
pub(crate) fn finished(output: std::io::Result<Output>, doing: &str) -> Result<(), LocalError> {
    git::output_of(output, "").map(drop).map_err(|error| failed(error, doing))
}

pub(crate) fn not_run(error: std::io::Error) -> LocalError {
    match error.kind() {
        std::io::ErrorKind::NotFound => LocalError::NoGit,
        _ => LocalError::Git(error),
    }
}

fn failed(error: GitError, doing: &str) -> LocalError {
    match error {
        GitError::Start(source) => not_run(source),
        GitError::Flood { source, .. } => refused(doing, source.to_string()),
        GitError::Failed { status, .. } if status.code() == Some(NOT_FOUND) => LocalError::NoGit,
        // A killed git prints nothing.
        GitError::Failed { status, stderr, .. } if stderr.is_empty() => {
            refused(doing, format!("it ended with {}", status_of_command(status)))
        }
        GitError::Failed { stderr, .. } => refused(doing, shortened(&stderr)),
    }
}

fn refused(doing: &str, output: String) -> LocalError {
    LocalError::GitRefused { doing: doing.to_owned(), output }
}

/// Whether git cannot take this branch or address for an option or a command.
pub(super) fn is_reference(text: &str) -> bool {
    let is_bad = text.is_empty()
        || text.starts_with('-')
        || text.contains("::")
        || text.chars().any(|letter| letter.is_control());
    !is_bad
}

/// Git's rules for branch names, without the names that have a special meaning.
pub(super) fn check_branch(text: &str) -> Result<&str, LocalError> {
    let is_bad = !is_reference(text)
        || text.contains("..")
        || text.contains("@{")
        || text.chars().any(|letter| " ~^:?*[\\".contains(letter))
        || text.ends_with('/')
        || text.ends_with(".lock");
    if is_bad { Err(LocalError::BadReference(text.to_owned())) } else { Ok(text) }
}

/// The last lines hold the error; earlier ones are progress.
fn shortened(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ");
    let start = text.ceil_char_boundary(text.len().saturating_sub(LONGEST_OUTPUT));
    text.get(start..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_could_misread_is_refused() {
        for bad in ["", "--upload-pack=x", "ext::sh -c x", "a\nb"] {
            assert!(!is_reference(bad), "{bad}");
        }
        for bad in ["a..b", "a@{1}", "a:b", "-x", "a b", "x.lock"] {
            assert!(check_branch(bad).is_err(), "{bad}");
        }
        assert_eq!(check_branch("feature/a-1").unwrap(), "feature/a-1");
        assert!(is_reference("git@example.com:a/b.git"));
    }
}
