//! The directory of one workspace: claimed before it is filled, taken away in one move.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::local::site::Layout;
use crate::local::{LocalError, files};

/// Says whose directory this is, so that nothing foreign is ever removed.
const OWNER_FILE: &str = "fleet/workspace";
/// Directories on their way in or out, under names that no workspace can have; the next start of the server
/// sweeps up what a crash leaves of them.
const ON_THE_WAY: &str = ".moving-";

#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) fleet: PathBuf,
}

impl Place {
    pub(crate) fn new(layout: &Layout, name: &str) -> Self {
        let root = layout.workspace(name);
        Self { repo: root.join("repo"), fleet: root.join("fleet"), root }
    }

    /// Makes the directories for this workspace, in place of what an unfinished build of it left. They appear
    /// all at once and with their owner's name, so that nothing without one is ours.
    pub(crate) fn claim(&self, workspace: Uuid) -> Result<(), LocalError> {
        if self.is_owned_by(workspace) {
            self.remove_now()?;
        }
        if self.root.symlink_metadata().is_ok() {
            return Err(LocalError::Occupied { path: self.root.clone() });
        }
        let fresh = self.on_the_way();
        let made = furnish(&fresh, workspace)
            .and_then(|()| std::fs::rename(&fresh, &self.root).map_err(LocalError::directory(&self.root)));
        if made.is_err() {
            // The next start of the server sweeps up what could not be removed now.
            let _gone = std::fs::remove_dir_all(&fresh);
        }
        made
    }

    pub(crate) fn is_owned_by(&self, workspace: Uuid) -> bool {
        let owner = std::fs::read_to_string(self.root.join(OWNER_FILE));
        owner.is_ok_and(|owner| owner.trim() == workspace.to_string())
    }

    pub(crate) fn metadata(&self) -> PathBuf {
        self.fleet.join("metadata")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.fleet.join("agent.log")
    }

    /// Removes everything; the name is free at once, however long the removal takes.
    pub(crate) fn remove_now(&self) -> Result<(), LocalError> {
        let gone = self.on_the_way();
        match std::fs::rename(&self.root, &gone) {
            Ok(()) => remove_tree(&gone),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(LocalError::Directory { path: self.root.clone(), source }),
        }
    }

    /// Keeps the files under a name that no workspace can have.
    pub(crate) fn leave_behind(&self, workspace: Uuid) -> Result<PathBuf, LocalError> {
        let name = self.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let short: String = workspace.simple().to_string().chars().take(8).collect();
        let kept = self.root.with_file_name(format!("{name}.orphan-{short}"));
        std::fs::rename(&self.root, &kept).map_err(LocalError::directory(&self.root))?;
        Ok(kept)
    }

    fn on_the_way(&self) -> PathBuf {
        self.root.with_file_name(format!("{ON_THE_WAY}{}", Uuid::new_v4().simple()))
    }
}

/// Removes what a crash left half made or half removed.
pub(crate) fn sweep(layout: &Layout) -> Result<(), LocalError> {
    let workspaces = layout.workspaces();
    let entries = std::fs::read_dir(&workspaces).map_err(LocalError::directory(&workspaces))?;
    let is_left = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(ON_THE_WAY);
    for entry in entries.flatten().filter(is_left) {
        remove_tree(&entry.path())?;
    }
    Ok(())
}

fn remove_tree(path: &Path) -> Result<(), LocalError> {
    std::fs::remove_dir_all(path).map_err(LocalError::directory(path))
}

fn furnish(root: &Path, workspace: Uuid) -> Result<(), LocalError> {
    for directory in ["fleet/metadata", "runs"] {
        files::private_directory(&root.join(directory))?;
    }
    files::private_file(&root.join(OWNER_FILE), &workspace.to_string())
}
