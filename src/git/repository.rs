//! Where the repository of a directory is.

use std::path::{Path, PathBuf};

use super::{GitError, run};

/// Where git keeps what belongs to the working directory. In a linked worktree the two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub git_directory: PathBuf,
    pub common_directory: PathBuf,
}

impl Repository {
    /// None where git names no repository.
    pub(crate) async fn of(directory: &Path) -> Result<Option<Self>, GitError> {
        let arguments = ["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"];
        let told = run(directory, &arguments).await?;
        let mut paths = told.lines().map(PathBuf::from);
        let found = paths.next().zip(paths.next());
        Ok(found.map(|(git_directory, common_directory)| Self { git_directory, common_directory }))
    }
}
