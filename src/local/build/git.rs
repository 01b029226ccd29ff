//! Runs git for the workspace: no hooks, no prompts, nothing of ours in its environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::marker;
use super::work::Work;
use crate::local::LocalError;
use crate::local::enclosure::Terminals;
use crate::local::environment;

/// Settings that a repository may not override from within.
const SETTINGS: [&str; 4] =
    ["core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.ext.allow=never", "gc.auto=0"];
/// What the walls say of a program that is missing; git itself never ends so.
const NOT_FOUND: i32 = 127;
/// How much of git's complaint is worth showing.
const LONGEST_OUTPUT: usize = 2_000;

/// Git on behalf of one workspace; a cancel finds it by the workspace's marker.
#[derive(Debug)]
pub(super) struct Git {
    environment: BTreeMap<String, String>,
    prefix: Vec<OsString>,
}

impl Git {
    /// Enclosed like all that runs in a workspace, since a repository's own settings can start programs.
    pub(super) fn of(work: &Work, visible: &[&Path]) -> Self {
        let prefix = work.deployment.enclosure.prefix(visible, Terminals::Own);
        let mut environment = environment::inherited(std::env::vars_os());
        let marker = marker(work.workspace.id);
        environment.insert(marker.key, marker.value);
        let quiet = [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "true"),
            ("SSH_ASKPASS", "true"),
            ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("LC_ALL", "C"),
        ];
        environment.extend(quiet.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Self { environment, prefix }
    }

    /// What git printed, or why it would not; `doing` completes "git could not …".
    pub(super) async fn run<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
        doing: &str,
    ) -> Result<String, LocalError> {
        let mut words = self.prefix.iter().map(OsString::as_os_str).chain([OsStr::new("git")]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).current_dir(directory).env_clear().envs(&self.environment).kill_on_drop(true);
        command
            .stdin(Stdio::null())
            .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]))
            .args(arguments);
        let output = command.output().await.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LocalError::NoGit,
            _ => LocalError::Git(error),
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        if output.status.code() == Some(NOT_FOUND) {
            return Err(LocalError::NoGit);
        }
        let said = shortened(&String::from_utf8_lossy(&output.stderr));
        // A git that was killed says nothing.
        let output = if said.is_empty() { format!("it ended with {}", output.status) } else { said };
        Err(LocalError::GitRefused { doing: doing.to_owned(), output })
    }
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
