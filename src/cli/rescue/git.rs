//! The operator's own git, on a repository that work is brought back into; no hook of it runs and nothing is checked out.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::bounded;
use crate::cli::error::CliError;
use crate::domain::quiet_git::{self, FOREIGN, Reach, UPLOAD_PACK};
use crate::domain::text::{cut, one_line};

/// A bundle comes from an agent: its objects are checked before they are kept.
const CHECKED: [&str; 2] = ["-c", "fetch.fsckObjects=true"];
const FETCH: [&str; 7] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    UPLOAD_PACK,
    "--end-of-options",
];
const LONGEST_COMPLAINT: usize = 300;
const MISSING_BASE: &str =
    "Clone the project's repository, or fetch its newest commits, and restore into that with --into.";

/// A repository, and whether it was made for this. What was made is removed again unless it is kept.
#[derive(Debug)]
pub(super) struct Repository {
    path: PathBuf,
    made: Made,
}

/// A name in a bundle, and the branch that it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) branch: String,
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

    /// The work is in it.
    pub(super) fn keep(mut self) {
        self.made = Made::Nothing;
    }

    /// The commits that a bundle holds, each with its name, if this repository has what they build on.
    pub(super) async fn heads(&self, bundle: &Path) -> Result<Vec<(String, String)>, CliError> {
        let bundle = bundle.display().to_string();
        self.run(&["bundle", "verify", "--quiet", &bundle], "use the bundle here").await?;
        let listed = self.run(&["bundle", "list-heads", &bundle], "read the bundle").await?;
        let pair = |line: &str| line.split_once(' ').map(|(id, name)| (id.to_owned(), name.to_owned()));
        Ok(listed.lines().filter_map(pair).collect())
    }

    /// Makes all of these branches at once.
    pub(super) async fn fetch(&self, bundle: &Path, heads: &[Head]) -> Result<(), CliError> {
        let bundle = bundle.display().to_string();
        let specs: Vec<String> =
            heads.iter().map(|head| format!("{}:refs/heads/{}", head.name, head.branch)).collect();
        let mut arguments = FETCH.to_vec();
        arguments.push(&bundle);
        arguments.extend(specs.iter().map(String::as_str));
        self.run(&arguments, "fetch from the bundle").await.map(drop)
    }

    /// The branches below these names, each with its commit.
    pub(super) async fn branches(&self, below: &[String]) -> Result<HashMap<String, String>, CliError> {
        let listed = self.list(&["--format=%(refname:lstrip=2) %(objectname)"], below).await?;
        let pair = |line: &str| line.rsplit_once(' ').map(|(name, id)| (name.to_owned(), id.to_owned()));
        Ok(listed.lines().filter_map(pair).collect())
    }

    /// Those of the branches below these names whose commits are part of this one.
    pub(super) async fn part_of(&self, commit: &str, below: &[String]) -> Result<HashSet<String>, CliError> {
        let merged = format!("--merged={commit}");
        let listed = self.list(&["--format=%(refname:lstrip=2)", &merged], below).await?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Removes branches that were made for this.
    pub(super) async fn drop_branches(&self, branches: &[&str]) -> Result<(), CliError> {
        if branches.is_empty() {
            return Ok(());
        }
        let arguments = [&["branch", "--quiet", "--delete", "--force", "--"], branches].concat();
        self.run(&arguments, "remove a branch").await.map(drop)
    }

    async fn list(&self, options: &[&str], below: &[String]) -> Result<String, CliError> {
        let patterns: Vec<String> = below.iter().map(|name| format!("refs/heads/{name}")).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        self.run(&[&["for-each-ref"], options, &patterns].concat(), "list the branches").await
    }

    async fn run(&self, arguments: &[&str], doing: &'static str) -> Result<String, CliError> {
        run(&self.path, arguments, doing).await
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let made = match self.made {
            Made::Nothing => return,
            Made::Repository => self.path.join(".git"),
            Made::Directory => self.path.clone(),
        };
        // What is left is an empty repository: no harm in it.
        let _removed = std::fs::remove_dir_all(made);
    }
}

async fn run(directory: &Path, arguments: &[&str], doing: &'static str) -> Result<String, CliError> {
    let mut command = Command::new("git");
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.current_dir(directory).kill_on_drop(true);
    command.envs(quiet_git::environment(Reach::Files)).args(CHECKED).args(arguments);
    let failed = |said: &str, next: &str| CliError::Git {
        doing,
        said: cut(&one_line(said), LONGEST_COMPLAINT),
        next: next.to_owned(),
    };
    let output = bounded::run(command).await.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => failed(&error.to_string(), "Read the bundle with git itself."),
        _ => failed(&error.to_string(), "Install git."),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr), MISSING_BASE))
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}
