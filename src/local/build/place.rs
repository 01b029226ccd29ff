//! The directory of one workspace: claimed before it is filled, taken away in one move.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
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
        self.remove(workspace)?;
        if self.root.symlink_metadata().is_ok() {
            return Err(LocalError::Occupied { path: self.root.clone() });
        }
        let fresh = self.on_the_way();
        let made = furnish(&fresh, workspace)
            .and_then(|()| std::fs::rename(&fresh, &self.root).map_err(LocalError::directory(&self.root)));
        if made.is_err() {
            // The next start of the server sweeps up what could not be removed now.
            let _gone = remove_tree(&fresh);
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

    /// Removes everything that is this workspace's. Nobody finds half of it under its name, unless something can
    /// not be removed at all: that stays, and whoever asks again is told again.
    pub(crate) fn remove(&self, workspace: Uuid) -> Result<(), LocalError> {
        if !self.is_owned_by(workspace) {
            return Ok(());
        }
        let gone = self.on_the_way();
        std::fs::rename(&self.root, &gone).map_err(LocalError::directory(&self.root))?;
        let removed = remove_tree(&gone);
        if removed.is_err() {
            // What does not come back is swept up by the next start of the server.
            let _back = claimed(&gone, workspace).is_ok() && std::fs::rename(&gone, &self.root).is_ok();
        }
        removed.map_err(LocalError::directory(&self.root))
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

/// Removes what a crash left half made or half removed; what cannot be removed keeps no server from starting.
pub(crate) fn sweep(layout: &Layout) -> Result<(), LocalError> {
    let workspaces = layout.workspaces();
    let entries = std::fs::read_dir(&workspaces).map_err(LocalError::directory(&workspaces))?;
    let is_left = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(ON_THE_WAY);
    for path in entries.flatten().filter(is_left).map(|entry| entry.path()) {
        if let Err(error) = remove_tree(&path) {
            tracing::warn!(path = %path.display(), %error, "what is left of a workspace cannot be removed");
        }
    }
    Ok(())
}

/// Removes a directory, also one in which an agent has made others read-only.
fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            std::fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

/// Lets us change every directory of a tree; nothing that a link leads to is touched.
fn open_up(directory: &Path) -> io::Result<()> {
    let mut to_open = vec![directory.to_owned()];
    while let Some(directory) = to_open.pop() {
        std::fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                to_open.push(entry.path());
            }
        }
    }
    Ok(())
}

fn furnish(root: &Path, workspace: Uuid) -> Result<(), LocalError> {
    for directory in ["fleet/metadata", "runs"] {
        files::private_directory(&root.join(directory))?;
    }
    claimed(root, workspace)
}

fn claimed(root: &Path, workspace: Uuid) -> Result<(), LocalError> {
    files::private_directory(&root.join("fleet"))?;
    files::private_file(&root.join(OWNER_FILE), &workspace.to_string())
}

#[cfg(test)]
mod tests {
    use rustix::process::geteuid;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;

    /// Root may write anywhere: this thread no longer may.
    fn become_plain() {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
        set_capabilities(None, sets).unwrap();
    }

    fn place(directory: &Path) -> (Layout, Place, Uuid) {
        let layout = Layout::make(directory).unwrap();
        let (place, workspace) = (Place::new(&layout, "agent"), Uuid::from_u128(7));
        place.claim(workspace).unwrap();
        (layout, place, workspace)
    }

    fn names(layout: &Layout) -> Vec<String> {
        let entries = std::fs::read_dir(layout.workspaces()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn locked(directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("file"), "").unwrap();
        std::fs::set_permissions(directory, Permissions::from_mode(0o555)).unwrap();
    }

    #[test]
    fn read_only_directories_go_and_what_a_link_leads_to_stays() {
        become_plain();
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (layout, place, workspace) = place(data.path());
        locked(&place.repo.join("outer/inner"));
        locked(&place.repo.join("outer"));
        std::os::unix::fs::symlink(elsewhere.path(), place.repo.join("link")).unwrap();
        std::fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o550)).unwrap();
        place.remove(workspace).unwrap();
        let mode = elsewhere.path().metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((names(&layout), mode), (Vec::new(), 0o550));
    }

    #[test]
    fn what_cannot_be_removed_stays_under_its_name_and_is_refused_each_time() {
        if !geteuid().is_root() {
            return;
        }
        let data = tempfile::tempdir().unwrap();
        let (layout, place, workspace) = place(data.path());
        locked(&place.repo);
        std::os::unix::fs::chown(&place.repo, Some(65_534), None).unwrap();
        become_plain();
        for _ in 0..2 {
            let error = place.remove(workspace).unwrap_err().chain();
            let expected =
                format!("cannot use {}: Operation not permitted (os error 1)", place.root.display());
            assert_eq!(
                (error, names(&layout), place.is_owned_by(workspace)),
                (expected, vec!["agent".to_owned()], true)
            );
        }
    }

    #[test]
    fn what_a_crash_left_and_cannot_be_removed_keeps_no_server_from_starting() {
        become_plain();
        let data = tempfile::tempdir().unwrap();
        let layout = Layout::make(data.path()).unwrap();
        for left in [".moving-1", ".moving-2"] {
            locked(&layout.workspaces().join(left));
        }
        let refuse =
            |mode| std::fs::set_permissions(layout.workspaces(), Permissions::from_mode(mode)).unwrap();
        refuse(0o500);
        sweep(&layout).unwrap();
        assert_eq!(names(&layout).len(), 2);
        refuse(0o700);
        sweep(&layout).unwrap();
        assert_eq!(names(&layout), Vec::<String>::new());
    }
}
