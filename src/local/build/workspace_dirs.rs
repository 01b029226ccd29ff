//! The directories of one workspace: claimed before they are filled, removed by one rename.
//!
//! An agent can write everything in the first one. State that the server must trust is in a second directory, which
//! no agent sees; its existence means that the first one belongs to the workspace.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::files::Durability;
use crate::files::beneath::Directory;
use crate::hooks::point;
use crate::local::deployment_info::Layout;
use crate::local::record::{Checkout, Workspace};
use crate::local::{LocalError, files};

/// Directories that are being made or removed, under names that no workspace can have; the next start of the server
/// removes those left by a crash.
pub(crate) const MOVING: &str = ".moving-";
/// Part of the names of directories that an orphaning delete has kept.
pub(crate) const ORPHAN: &str = ".orphan-";
/// Time limit for removing the leftovers of an unfinished build before a claim.
const CLAIM_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for removing leftovers of a crash at start; the next start continues.
const SWEEP_LIMIT: Duration = Duration::from_secs(60);
const FLEET: &str = "fleet";
const REPO: &str = "repo";
const METADATA: &str = "metadata";
/// The owner file of an earlier layout and the longest content that is read of it.
const EARLIER_OWNER: &str = "workspace";
const OWNER_LENGTH: u64 = 64;

#[derive(Debug, Clone)]
pub(crate) struct WorkspaceDirs {
    pub(crate) root: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) fleet: PathBuf,
    id: Uuid,
    trusted: PathBuf,
}

impl WorkspaceDirs {
    pub(crate) fn new(layout: &Layout, workspace: &Workspace) -> Self {
        let root = layout.workspace(&workspace.name);
        let trusted = layout.agents().join(workspace.id.to_string());
        Self { repo: root.join(REPO), fleet: root.join(FLEET), root, id: workspace.id, trusted }
    }

    /// Makes the directories of this workspace; replaces what an unfinished build has left.
    pub(crate) fn claim(&self) -> Result<(), LocalError> {
        self.remove(CLAIM_LIMIT)?;
        if self.is_there() {
            return Err(LocalError::Occupied { path: self.root.clone() });
        }
        let fresh = self.moving_path();
        let made = furnish(&fresh).and_then(|()| files::private_directory(&self.trusted)).and_then(|()| {
            point("place.furnished");
            std::fs::rename(&fresh, &self.root).map_err(LocalError::directory(&self.root))
        });
        if made.is_err() {
            // The next start of the server removes what could not be removed now.
            let _gone = (remove_tree(&fresh, within(CLAIM_LIMIT)), std::fs::remove_dir(&self.trusted));
        }
        made
    }

    pub(crate) fn is_there(&self) -> bool {
        self.root.symlink_metadata().is_ok()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.trusted.join("agent.log")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.trusted.join("agent.sock")
    }

    /// Writes files for the agent; replaces anything that the agent has put in their place.
    pub(crate) fn write(&self, files: &[(&str, &str)]) -> Result<(), LocalError> {
        let written = self.make_fleet().and_then(|fleet| {
            files.iter().try_for_each(|(name, text)| fleet.replace(name, text.as_bytes(), Durability::Synced))
        });
        written.map_err(LocalError::directory(&self.fleet))
    }

    /// Opens the directory of the agent's metadata; makes it if it is missing.
    pub(crate) fn make_metadata(&self) -> Result<Directory, LocalError> {
        let made = self.make_fleet().and_then(|fleet| fleet.make_child(METADATA));
        made.map_err(LocalError::directory(&self.fleet))
    }

    /// Opens the directory of the agent's metadata; fails if the agent has replaced it by something else.
    pub(crate) fn metadata(&self) -> io::Result<Directory> {
        Directory::open(&self.root)?.child(FLEET)?.child(METADATA)
    }

    /// Opens the agent's repository; fails if the agent has replaced it by something else.
    pub(crate) fn repository(&self) -> io::Result<Directory> {
        Directory::open(&self.root)?.child(REPO)
    }

    /// Removes everything of this workspace. Renames first, so that a partly removed directory never has the
    /// workspace's name. What cannot be removed within the limit is moved back for a repeated delete.
    pub(crate) fn remove(&self, limit: Duration) -> Result<(), LocalError> {
        if !self.is_claimed() {
            return Ok(());
        }
        let gone = self.moving_path();
        if self.moved_to(&gone)? {
            point("place.moved");
            let removed = remove_tree(&gone, within(limit));
            if removed.is_err() {
                // The next start of the server removes what cannot be moved back.
                let _back = std::fs::rename(&gone, &self.root);
            }
            removed.map_err(LocalError::directory(&self.root))?;
        }
        self.release_claim()
    }

    /// Keeps the files under a name that no workspace can have; none without files.
    pub(crate) fn orphan(&self) -> Result<Option<PathBuf>, LocalError> {
        let name = self.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let short: String = self.id.simple().to_string().chars().take(8).collect();
        let kept = self.root.with_file_name(format!("{name}{ORPHAN}{short}"));
        if self.is_claimed() {
            self.moved_to(&kept)?;
            point("place.kept");
            self.release_claim()?;
        }
        Ok(kept.is_dir().then_some(kept))
    }

    fn is_claimed(&self) -> bool {
        self.trusted.is_dir()
    }

    fn release_claim(&self) -> Result<(), LocalError> {
        std::fs::remove_dir_all(&self.trusted).map_err(LocalError::directory(&self.trusted))
    }

    fn make_fleet(&self) -> io::Result<Directory> {
        let (parent, name) = parts(&self.root)?;
        Directory::open(parent)?.own_child(name)?.make_child(FLEET)
    }

    /// False if it was already moved before a crash.
    fn moved_to(&self, path: &Path) -> Result<bool, LocalError> {
        match std::fs::rename(&self.root, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            moved => moved.map(|()| true).map_err(LocalError::directory(&self.root)),
        }
    }

    fn moving_path(&self) -> PathBuf {
        self.root.with_file_name(format!("{MOVING}{}", Uuid::new_v4().simple()))
    }
}

/// Claims directories of an earlier layout: for a started workspace by its record, for others by their owner file.
pub(crate) fn adopt(layout: &Layout, workspaces: &[Workspace]) -> Result<(), LocalError> {
    for workspace in workspaces.iter().filter(|workspace| !workspace.is_deleted) {
        let dirs = WorkspaceDirs::new(layout, workspace);
        if !dirs.is_claimed() && (workspace.checkout != Checkout::None || is_earlier(&dirs)) {
            files::private_directory(&dirs.trusted)?;
        }
    }
    Ok(())
}

fn is_earlier(dirs: &WorkspaceDirs) -> bool {
    let fleet = Directory::open(&dirs.root).and_then(|root| root.child(FLEET));
    let owner = fleet.and_then(|fleet| fleet.read(EARLIER_OWNER, OWNER_LENGTH));
    owner.is_ok_and(|owner| owner.bytes.trim_ascii() == dirs.id.to_string().as_bytes())
}

/// Removes leftovers of a crash; a failure does not keep the server from starting.
pub(crate) fn sweep(layout: &Layout) -> Result<(), LocalError> {
    let workspaces = layout.workspaces();
    let entries = std::fs::read_dir(&workspaces).map_err(LocalError::directory(&workspaces))?;
    let is_left = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(MOVING);
    let deadline = within(SWEEP_LIMIT);
    for path in entries.flatten().filter(is_left).map(|entry| entry.path()) {
        if let Err(error) = remove_tree(&path, deadline) {
            tracing::warn!(path = %path.display(), %error, "the remains of a workspace cannot be removed");
        }
    }
    Ok(())
}

fn remove_tree(path: &Path, deadline: Instant) -> io::Result<()> {
    let (parent, name) = parts(path)?;
    Directory::open(parent)?.remove(name, deadline)
}

fn within(limit: Duration) -> Instant {
    Instant::now() + limit
}

fn parts(path: &Path) -> io::Result<(&Path, &OsStr)> {
    path.parent().zip(path.file_name()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn furnish(root: &Path) -> Result<(), LocalError> {
    for directory in ["fleet/metadata", "runs"] {
        files::private_directory(&root.join(directory))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::geteuid;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;
    use crate::local::record::TemplateName;

    /// Root may write anywhere, so this thread gives that right up.
    fn become_plain() {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
        set_capabilities(None, sets).unwrap();
    }

    fn workspace() -> Workspace {
        let template = TemplateName { id: Uuid::nil(), name: String::new(), display_name: String::new() };
        Workspace::new(Uuid::from_u128(7), "agent".to_owned(), template)
    }

    fn dirs(directory: &Path) -> (Layout, WorkspaceDirs) {
        let layout = Layout::make(directory).unwrap();
        let dirs = WorkspaceDirs::new(&layout, &workspace());
        dirs.claim().unwrap();
        (layout, dirs)
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
        let (layout, dirs) = dirs(data.path());
        locked(&dirs.repo.join("outer/inner"));
        locked(&dirs.repo.join("outer"));
        std::os::unix::fs::symlink(elsewhere.path(), dirs.repo.join("link")).unwrap();
        std::fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o550)).unwrap();
        dirs.remove(CLAIM_LIMIT).unwrap();
        let mode = elsewhere.path().metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((names(&layout), mode), (Vec::new(), 0o550));
    }

    #[test]
    fn what_cannot_be_removed_stays_under_its_name_and_is_refused_each_time() {
        if !geteuid().is_root() {
            return;
        }
        let data = tempfile::tempdir().unwrap();
        let (layout, dirs) = dirs(data.path());
        locked(&dirs.repo);
        std::os::unix::fs::chown(&dirs.repo, Some(65_534), None).unwrap();
        become_plain();
        for _ in 0..2 {
            let error = dirs.remove(CLAIM_LIMIT).unwrap_err().chain();
            let expected =
                format!("cannot use {}: Operation not permitted (os error 1)", dirs.root.display());
            assert_eq!(
                (error, names(&layout), dirs.is_claimed()),
                (expected, vec!["agent".to_owned()], true)
            );
        }
    }

    #[test]
    fn what_is_still_written_to_stays_under_its_name_and_a_later_delete_removes_it() {
        let data = tempfile::tempdir().unwrap();
        let (layout, dirs) = dirs(data.path());
        let error = dirs.remove(Duration::ZERO).unwrap_err().chain();
        let expected = format!("cannot use {}: a process still writes there", dirs.root.display());
        assert_eq!((error, names(&layout), dirs.is_claimed()), (expected, vec!["agent".to_owned()], true));
        dirs.remove(CLAIM_LIMIT).unwrap();
        assert_eq!((names(&layout), dirs.is_claimed()), (Vec::new(), false));
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

    #[test]
    fn directories_of_an_earlier_layout_are_claimed_and_those_of_others_are_not() {
        let claimed = |checkout: Checkout, owner: &str| {
            let data = tempfile::tempdir().unwrap();
            let layout = Layout::make(data.path()).unwrap();
            let workspace = Workspace { checkout, ..workspace() };
            let dirs = WorkspaceDirs::new(&layout, &workspace);
            std::fs::create_dir_all(&dirs.fleet).unwrap();
            std::fs::write(dirs.fleet.join("workspace"), owner).unwrap();
            adopt(&layout, &[workspace]).unwrap();
            let is_claimed = dirs.is_claimed();
            dirs.remove(CLAIM_LIMIT).unwrap();
            (is_claimed, names(&layout))
        };
        let (ours, other) = (Uuid::from_u128(7).to_string(), Uuid::from_u128(8).to_string());
        assert_eq!(claimed(Checkout::Own, &other), (true, vec![]));
        assert_eq!(claimed(Checkout::None, &ours), (true, vec![]));
        assert_eq!(claimed(Checkout::None, &other), (false, vec!["agent".to_owned()]));
    }
}
