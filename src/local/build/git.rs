//! Runs git for a workspace: enclosed, without programs of a repository's choice, without prompts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};

use super::marker;
use super::work::Work;
use crate::bounded;
use crate::domain::quiet_git::{self, LIST, Reach};
use crate::local::enclosure::{Sight, true_end};
use crate::local::environment;
use crate::local::{Deployment, LocalError};
use crate::process::Marker;

/// What the walls say of a program that is missing; git itself never ends so.
const NOT_FOUND: i32 = 127;
/// A git that takes longer to work in a repository of this machine waits for something that an agent has put there.
const LOCAL_LIMIT: Duration = Duration::from_secs(30);
/// How much of git's complaint is worth showing.
const LONGEST_OUTPUT: usize = 2_000;

/// Git on behalf of one workspace.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    environment: BTreeMap<String, String>,
    prefix: Vec<OsString>,
    reach: Reach,
}

impl Git {
    /// Enclosed like all that runs in a workspace; a cancel finds it by the workspace's marker.
    pub(super) fn of(work: &Work, visible: &[&Path], reach: Reach) -> Self {
        let visible: Vec<_> = visible.iter().map(|path| (*path).to_owned()).collect();
        let sight = Sight { visible: &visible, ..Sight::default() };
        Self::new(&work.deployment, sight, reach).marked(marker(work.workspace.id))
    }

    pub(crate) fn new(deployment: &Deployment, sight: Sight<'_>, reach: Reach) -> Self {
        let prefix = deployment.enclosure.prefix(sight);
        let mut environment = environment::inherited(std::env::vars_os());
        environment.extend(quiet_git::environment(reach));
        Self { environment, prefix, reach }
    }

    pub(crate) fn marked(mut self, marker: Marker) -> Self {
        self.environment.insert(marker.key, marker.value);
        self
    }

    /// For a command that runs filters or drivers: those that are configured for this directory are off too.
    pub(super) async fn without_drivers(mut self, directory: &Path) -> Result<Self, LocalError> {
        let listing = self.run(directory, &LIST, "list the settings").await?;
        self.environment.extend(quiet_git::environment_after(self.reach, &listing));
        Ok(self)
    }

    /// What git printed, or why it would not; `doing` completes "git could not …".
    pub(crate) async fn run<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
        doing: &str,
    ) -> Result<String, LocalError> {
        let output = bounded::run(self.command(directory, arguments));
        finished(&self.limited(output, doing).await?, doing)
    }

    /// The same with these words on git's standard input.
    pub(crate) async fn feed<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
        input: &str,
        doing: &str,
    ) -> Result<String, LocalError> {
        let mut command = self.command(directory, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(not_run)?;
        let stdin = child.stdin.take();
        let output = async {
            let ((), output) = tokio::join!(fill(stdin, input), bounded::output_of(child));
            output
        };
        finished(&self.limited(output, doing).await?, doing)
    }

    /// What is fetched takes its time; a build's deadline or a cancel ends that.
    async fn limited(
        &self,
        output: impl Future<Output = std::io::Result<Output>>,
        doing: &str,
    ) -> Result<Output, LocalError> {
        let refused = |output| LocalError::GitRefused { doing: doing.to_owned(), output };
        let output = match self.reach {
            Reach::Network | Reach::Files => output.await,
            Reach::Local => tokio::time::timeout(LOCAL_LIMIT, output)
                .await
                .map_err(|_| refused(format!("no answer within {} s", LOCAL_LIMIT.as_secs())))?,
        };
        output.map_err(|error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => refused(error.to_string()),
            _ => not_run(error),
        })
    }

    /// A git command that is not started yet; it ends when its handle is dropped.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, directory: &Path, arguments: &[A]) -> Command {
        let mut words = self.prefix.iter().map(OsString::as_os_str).chain([OsStr::new("git")]);
        let mut command = Command::new(words.next().unwrap_or_default());
        // Git enters the directory itself: the thread that starts a process waits until it is where it should start.
        command.args(words).current_dir("/").env_clear().envs(&self.environment).kill_on_drop(true);
        command.arg("-C").arg(directory).args(arguments);
        command
    }
}

/// A git that does not read to the end says itself why.
async fn fill(stdin: Option<ChildStdin>, input: &str) {
    if let Some(mut stdin) = stdin {
        let _unread = stdin.write_all(input.as_bytes()).await;
    }
}

pub(crate) fn not_run(error: std::io::Error) -> LocalError {
    match error.kind() {
        std::io::ErrorKind::NotFound => LocalError::NoGit,
        _ => LocalError::Git(error),
    }
}

pub(crate) fn finished(output: &Output, doing: &str) -> Result<String, LocalError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    if output.status.code() == Some(NOT_FOUND) {
        return Err(LocalError::NoGit);
    }
    let said = shortened(&String::from_utf8_lossy(&output.stderr));
    // A git that was killed says nothing.
    let output = if said.is_empty() { format!("it ended with {}", true_end(output.status)) } else { said };
    Err(LocalError::GitRefused { doing: doing.to_owned(), output })
}

/// A branch or an address that git cannot take for an option or for something to be run.
pub(super) fn is_reference(text: &str) -> bool {
    let is_bad = text.is_empty()
        || text.starts_with('-')
        || text.contains("::")
        || text.chars().any(|letter| letter.is_control());
    !is_bad
}

/// By git's own rules for names, and none that means something else to git.
pub(super) fn check_branch(text: &str) -> Result<&str, LocalError> {
    let is_bad = !is_reference(text)
        || text.contains("..")
        || text.contains("@{")
        || text.chars().any(|letter| " ~^:?*[\\".contains(letter))
        || text.ends_with('/')
        || text.ends_with(".lock");
    if is_bad { Err(LocalError::BadReference(text.to_owned())) } else { Ok(text) }
}

/// The end says what went wrong; the lines before it are progress.
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
