//! Reads a repository's notes for agents, for engines that must not read the repository's settings.

use std::io::Read;
use std::path::Path;

/// Longer notes are truncated, so that they do not displace the task.
const MAX_NOTES: u64 = 64 * 1024;

/// The notes, unless the path leads out of the repository.
pub(super) fn read(directory: &Path, name: &str) -> Option<String> {
    let path = directory.join(name).canonicalize().ok()?;
    let root = directory.canonicalize().ok()?;
    if !path.starts_with(root) || !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_NOTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|notes| !notes.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "CLAUDE.md";

    #[test]
    fn notes_are_read_inside_the_repository_only() {
        let directory = tempfile::tempdir().unwrap();
        let repository = directory.path().join("repo");
        std::fs::create_dir(&repository).unwrap();
        assert_eq!(read(&repository, FILE), None);
        std::fs::write(directory.path().join("secret"), "key").unwrap();
        std::os::unix::fs::symlink("../secret", repository.join(FILE)).unwrap();
        assert_eq!(read(&repository, FILE), None);
        std::fs::remove_file(repository.join(FILE)).unwrap();
        std::fs::write(repository.join(FILE), "Run the tests.").unwrap();
        assert_eq!(read(&repository, FILE).as_deref(), Some("Run the tests."));
    }
}
