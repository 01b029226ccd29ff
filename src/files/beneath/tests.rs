//! Links, FIFOs, hard links, wide, deep and locked directories: none leads out, blocks or stays.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tempfile::TempDir;

use super::*;

const SECRET: &str = "of the operator";

/// An agent's directory beside a secret file and a secret directory.
struct Scene {
    root: TempDir,
    agent: Directory,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("agent")).unwrap();
        std::fs::create_dir(root.path().join("hidden")).unwrap();
        for secret in ["secret", "hidden/secret"] {
            std::fs::write(root.path().join(secret), SECRET).unwrap();
        }
        let agent = Directory::open(&root.path().join("agent")).unwrap();
        Self { root, agent }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("agent").join(name)
    }

    /// The remaining names in the agent's directory, and the content of the secrets.
    fn left(&self) -> (Vec<OsString>, [String; 2]) {
        let secret = |name: &str| std::fs::read_to_string(self.root.path().join(name)).unwrap();
        (self.agent.names(usize::MAX).unwrap(), [secret("secret"), secret("hidden/secret")])
    }
}

fn untouched() -> [String; 2] {
    [SECRET.to_owned(), SECRET.to_owned()]
}

/// Root may enter any directory, so this thread gives that right up.
fn become_plain() {
    let mut sets = capabilities(None).unwrap();
    sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
    set_capabilities(None, sets).unwrap();
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn only_a_regular_file_with_one_name_is_read_and_only_up_to_the_limit() {
    let scene = Scene::new();
    std::fs::write(scene.path("plain"), "0123456789").unwrap();
    symlink("../secret", scene.path("link")).unwrap();
    symlink("/proc/self/environ", scene.path("magic")).unwrap();
    std::fs::hard_link(scene.root.path().join("secret"), scene.path("hard")).unwrap();
    std::fs::create_dir(scene.path("directory")).unwrap();
    fifo(&scene.path("fifo"));
    std::fs::File::create(scene.path("sparse")).unwrap().set_len(1 << 30).unwrap();
    let content = |bytes: &[u8], size| Some(Content { bytes: bytes.to_vec(), size });
    assert_eq!(scene.agent.read("plain", 4).ok(), content(b"0123", 10));
    assert_eq!(scene.agent.read("sparse", 4).ok(), content(&[0; 4], 1 << 30));
    for refused in ["link", "magic", "hard", "directory", "fifo", "absent", "../secret", "..", ""] {
        assert_eq!(scene.agent.read(refused, 4).ok(), None, "{refused}");
    }
}

#[test]
fn a_directory_that_was_swapped_for_a_link_is_not_entered() {
    let scene = Scene::new();
    symlink("../hidden", scene.path("metadata")).unwrap();
    assert!(scene.agent.child("metadata").is_err());
    let made = scene.agent.make_child("metadata").unwrap();
    made.replace("secret", b"ours", Durability::Cached).unwrap();
    assert_eq!(std::fs::read(scene.path("metadata/secret")).unwrap(), b"ours");
    assert_eq!(scene.left(), (vec!["metadata".into()], untouched()));
}

#[test]
fn a_file_is_put_in_place_of_whatever_has_its_name() {
    let scene = Scene::new();
    symlink("../secret", scene.path("link")).unwrap();
    std::fs::hard_link(scene.root.path().join("secret"), scene.path("hard")).unwrap();
    fifo(&scene.path("fifo"));
    std::fs::create_dir_all(scene.path("directory/inner")).unwrap();
    for name in ["link", "hard", "fifo", "directory", "absent"] {
        scene.agent.replace(name, b"ours", Durability::Synced).unwrap();
        assert_eq!(scene.agent.read(name, 9).unwrap(), Content { bytes: b"ours".to_vec(), size: 4 });
    }
    assert_eq!((scene.left().0.len(), scene.left().1), (5, untouched()));
}

#[test]
fn a_wide_directory_is_looked_at_up_to_the_limit() {
    let scene = Scene::new();
    for number in 0..50 {
        std::fs::write(scene.path(&number.to_string()), "").unwrap();
    }
    assert_eq!(scene.agent.names(20).unwrap().len(), 20);
}

#[test]
fn a_tree_goes_however_deep_wide_or_locked_and_what_links_lead_to_stays() {
    become_plain();
    let scene = Scene::new();
    std::fs::create_dir(scene.path("tree")).unwrap();
    let mut deepest = scene.agent.child("tree").unwrap();
    for _ in 0..3_000 {
        deepest = deepest.make_child("d").unwrap();
    }
    for number in 0..3_000 {
        std::fs::write(scene.path(&format!("tree/{number}")), "").unwrap();
    }
    std::fs::create_dir_all(scene.path("tree/locked/inner")).unwrap();
    symlink("../../secret", scene.path("tree/locked/link")).unwrap();
    symlink("../../hidden", scene.path("tree/hidden")).unwrap();
    for locked in ["tree/locked/inner", "tree/locked", "tree"] {
        std::fs::set_permissions(scene.path(locked), Permissions::from_mode(0o000)).unwrap();
    }
    scene.agent.remove(OsStr::new("tree"), Instant::now() + Duration::from_secs(60)).unwrap();
    assert_eq!(scene.left(), (Vec::new(), untouched()));
}

/// An expired deadline has the same effect as a process that fills the tree for ever, without the race.
#[test]
fn a_tree_that_is_not_gone_at_the_deadline_is_given_up_and_goes_later() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path("tree/inner")).unwrap();
    std::fs::write(scene.path("tree/inner/file"), "").unwrap();
    let remove = |deadline| scene.agent.remove(OsStr::new("tree"), deadline);
    let refused = remove(Instant::now()).map_err(|error| (error.kind(), error.to_string()));
    assert_eq!(refused, Err((io::ErrorKind::TimedOut, "a process still writes there".to_owned())));
    remove(Instant::now() + Duration::from_secs(60)).unwrap();
    assert_eq!(scene.left(), (Vec::new(), untouched()));
}
