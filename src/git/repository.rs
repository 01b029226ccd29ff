//! Finds the repository of a directory.

use std::path::{Path, PathBuf};

use super::{GitError, run};

/// The git directories of a working directory. In a linked worktree the two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub git_directory: PathBuf,
    pub common_directory: PathBuf,
}

impl Repository {
    /// None if git finds no repository.
    pub(crate) async fn of(directory: &Path) -> Result<Option<Self>, GitError> {
        let arguments = ["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"];
        let output = run(directory, &arguments).await?;
        let mut paths = output.lines().map(PathBuf::from);
        let found = paths.next().zip(paths.next());
        Ok(found.map(|(git_directory, common_directory)| Self { git_directory, common_directory }))
    }
}
