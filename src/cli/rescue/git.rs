//! The target repository of a restore; runs no hooks and checks nothing out.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::cli::error::CliError;
use crate::cli::git::{self, Purpose};
use crate::git::quiet::UPLOAD_PACK;
use crate::git::refs::{self, Ref};

/// A bundle comes from an agent: its objects are checked before they are stored.
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
const OTHER_PLACE: &str = "Set --into to another clone of the project's repository, or to a new directory.";
/// Prints those of the given commits that exist.
const KNOWN_COMMITS: [&str; 4] = ["rev-list", "--no-walk=unsorted", "--ignore-missing", "--end-of-options"];
const MOST_ASKED: usize = 500;

/// The target directory of a restore as it was found; nothing is created yet.
#[derive(Debug)]
pub(super) struct RestoreTarget {
    path: PathBuf,
    found: TargetKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    Nothing,
    EmptyDirectory,
    Repository,
}

/// A repository, and what was created for it, which is removed again unless it is kept.
#[derive(Debug)]
pub(super) struct Repository {
    path: PathBuf,
    made: Created,
}

/// A name in a bundle, and the branch it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) branch: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Created {
    Nothing,
    Repository,
    /// The directory and its created parents, the topmost last.
    Directories(Vec<PathBuf>),
}

impl RestoreTarget {
    /// The repository there, or a place where one can be created.
    pub(super) async fn look(directory: &Path) -> Result<Self, CliError> {
        let path = std::path::absolute(directory)
            .map_err(|source| CliError::File { path: directory.to_owned(), source })?;
        let found = if !path.exists() {
            TargetKind::Nothing
        } else if run(&path, &["rev-parse", "--git-dir"], "look at the repository").await.is_ok() {
            TargetKind::Repository
        } else if is_empty(&path) {
            TargetKind::EmptyDirectory
        } else {
            let message = format!("{} is not a git repository", path.display());
            return Err(CliError::usage(message, "Set --into to a repository or a new directory."));
        };
        Ok(Self { path, found })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Those of these commits that the repository lacks.
    pub(super) async fn missing(&self, commits: &[String]) -> Result<Vec<String>, CliError> {
        let mut known = HashSet::new();
        for some in commits.chunks(MOST_ASKED).filter(|_| self.found == TargetKind::Repository) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            let listed =
                run(&self.path, &[&KNOWN_COMMITS, some.as_slice()].concat(), "look for commits").await?;
            known.extend(listed.lines().map(str::to_owned));
        }
        Ok(commits.iter().filter(|commit| !known.contains(*commit)).cloned().collect())
    }

    /// The existing repository, or a new one.
    pub(super) async fn open(self) -> Result<Repository, CliError> {
        let Self { path, found } = self;
        let above = path.ancestors().take_while(|directory| !directory.exists());
        let made = match found {
            TargetKind::Repository => return Ok(Repository { path, made: Created::Nothing }),
            TargetKind::EmptyDirectory => Created::Repository,
            TargetKind::Nothing => Created::Directories(above.map(Path::to_owned).collect()),
        };
        let repository = Repository { path: path.clone(), made };
        std::fs::create_dir_all(&path).map_err(|source| CliError::Save { path, source })?;
        repository.run(&["init", "--quiet"], "make a repository").await?;
        Ok(repository)
    }
}

impl Repository {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The work is in it, so it is not removed on drop.
    pub(super) fn keep(mut self) {
        self.made = Created::Nothing;
    }

    /// Whether git can use the bundle here.
    pub(super) async fn verify(&self, bundle: &Path) -> Result<(), CliError> {
        let bundle = bundle.display().to_string();
        self.run(&["bundle", "verify", "--quiet", &bundle], "use the bundle here").await.map(drop)
    }

    /// Creates all of these branches atomically.
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
        let listed = self.list(&[], below).await?;
        let pair = |found: Ref| Some((found.branch()?.to_owned(), found.commit));
        Ok(refs::read(&listed).filter_map(pair).collect())
    }

    /// The branches below these names whose commits are contained in this one.
    pub(super) async fn part_of(&self, commit: &str, below: &[String]) -> Result<HashSet<String>, CliError> {
        let merged = format!("--merged={commit}");
        let listed = self.list(&[&merged], below).await?;
        Ok(refs::read(&listed).filter_map(|found| Some(found.branch()?.to_owned())).collect())
    }

    /// Removes branches that were created for this restore.
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
        self.run(&refs::list(&[options, &patterns].concat()), "list the branches").await
    }

    async fn run(&self, arguments: &[&str], doing: &'static str) -> Result<String, CliError> {
        run(&self.path, arguments, doing).await
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // On a failure an empty repository or directory is left, which is harmless.
        match &self.made {
            Created::Nothing => {}
            Created::Repository => {
                let _removed = std::fs::remove_dir_all(self.path.join(".git"));
            }
            Created::Directories(made) => {
                let _removed = std::fs::remove_dir_all(&self.path);
                // A directory that has got other content meanwhile stays.
                let above = made.iter().skip(1);
                let _all = above.map(std::fs::remove_dir).take_while(Result::is_ok).count();
            }
        }
    }
}

async fn run(directory: &Path, arguments: &[&str], doing: &'static str) -> Result<String, CliError> {
    git::run(directory, &[&CHECKED, arguments].concat(), Purpose { doing, next: OTHER_PLACE }).await
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}
