//! Files that a runner shares with its workspace: the initial prompt, and metadata, one file per key.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde_json::json;

use crate::domain::metadata::USAGE;
use crate::engine::UsageRecord;
use crate::files::beneath::Directory;
use crate::files::{Durability, regular};
use crate::git::state::GitState;

const METADATA: &str = "metadata";
/// The file with the workspace's first message.
const PROMPT: &str = "prompt";

/// Creates the directories that a runner writes to.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory.join(METADATA))
}

/// The workspace's first message, if it has one.
pub(super) fn prompt(directory: &Path) -> io::Result<Option<String>> {
    match regular::text(&directory.join(PROMPT)) {
        Ok(prompt) => Ok(Some(prompt).filter(|prompt| !prompt.trim().is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Publishes metadata after a run. A failed write never holds up the work.
pub(super) fn leave_metadata(directory: &Path, git: Option<&GitState>, usage: UsageRecord) {
    let mut values = vec![(USAGE, json!(usage).to_string())];
    if let Some(git) = git {
        values.push(("fleet_mcp_branch", git.branch.clone().unwrap_or_default()));
        values.push(("fleet_mcp_git", json!(git).to_string()));
    }
    for (key, value) in values {
        if let Err(error) = leave(directory, key, &value) {
            tracing::warn!(%error, key, "metadata cannot be written");
        }
    }
}

fn leave(directory: &Path, key: &str, value: &str) -> io::Result<()> {
    let metadata = Directory::open_linked(directory)?.make_child(METADATA)?;
    metadata.replace(key, value.as_bytes(), Durability::Cached)
}

/// Replaces a file of the runner's own, whatever the agent has put in its place.
pub(super) fn replace(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    Directory::open_linked(directory)?.replace(name, text.as_bytes(), Durability::Cached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_whatever_the_agent_has_put_in_its_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(METADATA).join(name);
        prepare(directory.path()).unwrap();
        std::fs::write(path("elsewhere"), "kept").unwrap();
        for place in ["linked", ".linked.fresh"] {
            std::os::unix::fs::symlink(path("elsewhere"), path(place)).unwrap();
        }
        for place in ["piped", ".piped.fresh"] {
            rustix::fs::mkfifoat(rustix::fs::CWD, path(place), rustix::fs::Mode::RWXU).unwrap();
        }
        for place in ["directory/full", ".directory.fresh/full"] {
            std::fs::create_dir_all(path(place)).unwrap();
        }
        for key in ["linked", "piped", "directory", "plain"] {
            leave(directory.path(), key, "value").unwrap();
            assert_eq!(std::fs::read_to_string(path(key)).unwrap(), "value", "{key}");
        }
        assert_eq!(std::fs::read_to_string(path("elsewhere")).unwrap(), "kept");
    }
}
