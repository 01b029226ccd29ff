//! Probes where a process will work: the directory, its repository, and the agent's files of this start.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::workspace_exec::WorkspaceExec;
use crate::coder::exec::{Command, Exit, Output};
use crate::domain::text::{cut, one_line};
use crate::engine::{EngineWord, Repository};
use crate::git::quiet::shell_function;

const SCRIPT: &str = include_str!("probe.sh");
const MISSING: i32 = 3;
const OUTSIDE: i32 = 4;
const LONGEST_REASON: usize = 300;

/// The inputs of a probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkspaceProbe<'a> {
    /// A path inside the agent's directory; none for that directory itself.
    pub(super) cwd: Option<&'a str>,
    /// The start whose files are wanted.
    pub(super) generation: Option<i64>,
    /// The repository's file of instructions for agents.
    pub(super) notes: Option<&'static str>,
    pub(super) codex_settings: CodexSettings,
}

/// Whether the probe reads the user's own settings of Codex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodexSettings {
    Wanted,
    Unwanted,
}

impl CodexSettings {
    /// Codex merges them with the settings of a run.
    pub(super) fn wanted_by(engine: EngineWord) -> Self {
        if engine == EngineWord::Codex { Self::Wanted } else { Self::Unwanted }
    }

    fn argument(self) -> &'static str {
        match self {
            Self::Wanted => "codex",
            Self::Unwanted => "",
        }
    }
}

/// The result of a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WorkspaceFacts {
    pub(super) cwd: String,
    /// The directory of the agent's files, if they belong to the requested start.
    pub(super) agent_files: Option<PathBuf>,
    pub(super) notes: Option<String>,
    /// The user's own settings of Codex; not stored, since they may hold secrets.
    pub(super) codex_settings: Option<String>,
    pub(super) repository: Option<Repository>,
    /// Empty before the first commit; none without a repository.
    pub(super) head: Option<String>,
}

#[derive(Debug, Error)]
pub(super) enum ProbeError {
    #[error("the workspace does not respond: {0}")]
    Silent(String),
    #[error("cwd '{cwd}' is not a directory in the workspace")]
    Missing { cwd: String, path: Option<String> },
    #[error("cwd '{cwd}' is outside the workspace")]
    Outside { cwd: String, path: Option<String> },
    #[error("cwd '{cwd}' could not be read: {stderr}")]
    Failed { cwd: String, stderr: String },
    #[error("cwd '{0}' has a name that is not UTF-8")]
    Unnamable(String),
}

impl ProbeError {
    /// The absolute path of the requested directory, if known.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Self::Missing { path, .. } | Self::Outside { path, .. } => path.as_deref(),
            Self::Silent(_) | Self::Failed { .. } | Self::Unnamable(_) => None,
        }
    }
}

impl WorkspaceExec<'_> {
    pub(super) async fn probe(&self, wanted: WorkspaceProbe<'_>) -> Result<WorkspaceFacts, ProbeError> {
        let cwd = wanted.cwd.unwrap_or(".");
        let generation = wanted.generation.map(|generation| generation.to_string()).unwrap_or_default();
        let script = format!("{}{SCRIPT}", shell_function());
        let (notes, codex) = (wanted.notes.unwrap_or_default(), wanted.codex_settings.argument());
        let command = Command {
            timeout: self.limits.workspace_command,
            ..Command::new(["sh", "-c", &script, "probe", cwd, &generation, notes, codex])
        };
        match self.exec(command, self.limits.workspace_answer).await {
            Ok(output) => read(&output, cwd),
            Err(error) => Err(ProbeError::Silent(error.to_string())),
        }
    }
}

fn read(output: &Output, cwd: &str) -> Result<WorkspaceFacts, ProbeError> {
    match output.exit {
        Exit::Code(0) => {}
        Exit::Code(MISSING) => {
            let joined = |root| Path::new(root).join(cwd).to_str().map(str::to_owned);
            let path = first_part(&output.stdout).and_then(joined);
            return Err(ProbeError::Missing { cwd: cwd.to_owned(), path });
        }
        Exit::Code(OUTSIDE) => {
            let path = first_part(&output.stdout).map(str::to_owned);
            return Err(ProbeError::Outside { cwd: cwd.to_owned(), path });
        }
        Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => {
            let stderr = cut(&one_line(&String::from_utf8_lossy(&output.stderr)), LONGEST_REASON);
            return Err(ProbeError::Failed { cwd: cwd.to_owned(), stderr });
        }
    }
    parts(&output.stdout).map_err(|_| ProbeError::Unnamable(cwd.to_owned()))
}

fn first_part(stdout: &[u8]) -> Option<&str> {
    let part = stdout.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(part).ok().filter(|path| path.starts_with('/'))
}

fn parts(stdout: &[u8]) -> Result<WorkspaceFacts, std::str::Utf8Error> {
    let mut parts = stdout.split(|byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let cwd = std::str::from_utf8(next())?.to_owned();
    let agent_files =
        Some(std::str::from_utf8(next())?).filter(|path| path.starts_with('/')).map(PathBuf::from);
    let mut text = || {
        let text = String::from_utf8_lossy(next()).into_owned();
        Some(text).filter(|text| !text.trim().is_empty())
    };
    let (notes, codex_settings) = (text(), text());
    let (own, common) = (std::str::from_utf8(next())?, std::str::from_utf8(next())?);
    let repository = (!own.is_empty() && !common.is_empty())
        .then(|| Repository { git_directory: own.into(), common_directory: common.into() });
    let head = repository.is_some().then(|| String::from_utf8_lossy(next()).into_owned());
    Ok(WorkspaceFacts { cwd, agent_files, notes, codex_settings, repository, head })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none() {
        let bare = WorkspaceFacts { cwd: "/w".to_owned(), ..WorkspaceFacts::default() };
        assert_eq!(parts(b"/w\0\0\0\0").unwrap(), bare);
        let repository = Repository { git_directory: "/w/.git".into(), common_directory: "/w/.git".into() };
        let fresh =
            WorkspaceFacts { repository: Some(repository.clone()), head: Some(String::new()), ..bare };
        assert_eq!(parts(b"/w\0\0\0\0/w/.git\0/w/.git\0\0").unwrap(), fresh);
        let whole = WorkspaceFacts {
            cwd: "/w".to_owned(),
            agent_files: Some("/f".into()),
            notes: Some("Test.\n".to_owned()),
            codex_settings: Some("model = \"m\"\n".to_owned()),
            repository: Some(repository),
            head: Some("1f2e".to_owned()),
        };
        assert_eq!(parts(b"/w\0/f\0Test.\n\0model = \"m\"\n\0/w/.git\0/w/.git\x001f2e\0").unwrap(), whole);
    }
}
