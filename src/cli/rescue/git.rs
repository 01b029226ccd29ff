//! The operator's own git, on a repository that work is brought back into; no hook of it runs and nothing is checked out.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::cli::error::CliError;
use crate::domain::text::{cut, one_line};

/// A bundle comes from an agent: its objects are checked before they are kept.
const SETTINGS: [&str; 3] = ["core.hooksPath=/dev/null", "fetch.fsckObjects=true", "gc.auto=0"];
const LONGEST_COMPLAINT: usize = 300;
const MISSING_BASE: &str =
    "Clone the project's repository, or fetch its newest commits, and restore into that with --into.";

/// A repository, and whether it was made for this.
#[derive(Debug)]
pub(super) struct Repository {
    path: PathBuf,
    made: Made,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Nothing,
    Repository,
    Directory,
}

impl Repository {
    /// The repository there, or a new one where nothing is.
    pub(super) async fn open(directory: &Path) -> Result<Self, CliError> {
        let path = std::path::absolute(directory)
            .map_err(|source| CliError::File { path: directory.to_owned(), source })?;
        let (is_there, is_empty) = (path.exists(), is_empty(&path));
        if is_there && run(&path, &["rev-parse", "--git-dir"], "look at the repository").await.is_ok() {
            return Ok(Self { path, made: Made::Nothing });
        }
        if is_there && !is_empty {
            let message = format!("{} is not a git repository", path.display());
            return Err(CliError::usage(message, "Name a repository, or a new directory, with --into."));
        }
        std::fs::create_dir_all(&path).map_err(|source| CliError::File { path: path.clone(), source })?;
        run(&path, &["init", "--quiet"], "make a repository").await?;
        Ok(Self { path, made: if is_there { Made::Repository } else { Made::Directory } })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes away what was made for work that could not be brought back.
    pub(super) fn undo(&self) {
        let made = match self.made {
            Made::Nothing => return,
            Made::Repository => self.path.join(".git"),
            Made::Directory => self.path.clone(),
        };
        // What is left is an empty repository: no harm in it.
        let _removed = std::fs::remove_dir_all(made);
    }

    /// The commits that a bundle holds, each with its name, if this repository has what they build on.
    pub(super) async fn heads(&self, bundle: &Path) -> Result<Vec<(String, String)>, CliError> {
        let bundle = bundle.display().to_string();
        self.run(&["bundle", "verify", "--quiet", &bundle], "use the bundle here").await?;
        let listed = self.run(&["bundle", "list-heads", &bundle], "read the bundle").await?;
        let pair = |line: &str| line.split_once(' ').map(|(id, name)| (id.to_owned(), name.to_owned()));
        Ok(listed.lines().filter_map(pair).collect())
    }

    pub(super) async fn fetch(&self, bundle: &Path, name: &str, branch: &str) -> Result<(), CliError> {
        let (bundle, spec) = (bundle.display().to_string(), format!("{name}:refs/heads/{branch}"));
        let arguments = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--end-of-options",
            &bundle,
            &spec,
        ];
        self.run(&arguments, "fetch from the bundle").await.map(drop)
    }

    /// The commit of a branch, if there is such a branch.
    pub(super) async fn commit_of(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        self.run(&["rev-parse", "--verify", "--quiet", &name], "look for a branch").await.ok()
    }

    /// Does the branch hold this commit?
    pub(super) async fn contains(&self, branch: &str, commit: &str) -> bool {
        let name = format!("refs/heads/{branch}");
        self.run(&["merge-base", "--is-ancestor", commit, &name], "compare branches").await.is_ok()
    }

    async fn run(&self, arguments: &[&str], doing: &'static str) -> Result<String, CliError> {
        run(&self.path, arguments, doing).await
    }
}

async fn run(directory: &Path, arguments: &[&str], doing: &'static str) -> Result<String, CliError> {
    let mut command = Command::new("git");
    command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true).env("LC_ALL", "C");
    command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(arguments);
    let failed = |said: &str, next: &str| CliError::Git {
        doing,
        said: cut(&one_line(said), LONGEST_COMPLAINT),
        next: next.to_owned(),
    };
    let output = command.output().await.map_err(|error| failed(&error.to_string(), "Install git."))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr), MISSING_BASE))
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}
