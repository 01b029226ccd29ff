//! The files a runner shares with its workspace: the prompt it finds, and the metadata it leaves, one a key.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde_json::json;

use super::regular;
use crate::domain::metadata::USAGE;
use crate::engine::UsageRecord;
use crate::engine::git_state::GitState;

const METADATA: &str = "metadata";
/// The file that holds the workspace's first message.
const PROMPT: &str = "prompt";

/// Makes the directories a runner writes to.
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

/// Tells what a run left behind. Metadata that cannot be written never holds up the work.
pub(super) fn leave_metadata(directory: &Path, git: Option<&GitState>, usage: UsageRecord) {
    let mut values = vec![(USAGE, json!(usage).to_string())];
    if let Some(git) = git {
        values.push(("fleet_mcp_branch", git.branch.clone().unwrap_or_default()));
        values.push(("fleet_mcp_git", json!(git).to_string()));
    }
    for (key, value) in values {
        if let Err(error) = replace(&directory.join(METADATA), key, &value) {
            tracing::warn!(%error, key, "metadata cannot be written");
        }
    }
}

/// A reader sees the old value or the new one, never a half.
pub(super) fn replace(folder: &Path, key: &str, value: &str) -> io::Result<()> {
    let fresh = folder.join(format!(".{key}.fresh"));
    // The agent may have put a link or a FIFO there; a new file is neither.
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(value.as_bytes())?;
    std::fs::rename(&fresh, folder.join(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_whatever_the_agent_has_put_in_its_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("elsewhere"), "kept").unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), path(".linked.fresh")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path(".piped.fresh"), rustix::fs::Mode::RWXU).unwrap();
        for key in ["linked", "piped", "plain"] {
            replace(directory.path(), key, "value").unwrap();
            assert_eq!(std::fs::read_to_string(path(key)).unwrap(), "value");
        }
        assert_eq!(std::fs::read_to_string(path("elsewhere")).unwrap(), "kept");
    }
}
