//! The directory of saved work: private, without partial files under a final name.

use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::domain::bundle::Header;
use crate::domain::rescue::{Rescue, SavedWork};
use crate::files::{self, Draft, Durability};

/// The ref in a bundle that holds all work.
const WORK: &str = "refs/rescue/work";

#[derive(Debug, Clone, Copy)]
pub(in crate::app) struct RescueDirectory<'a> {
    pub(in crate::app) directory: &'a Path,
}

/// A bundle in transfer; removed unless it is finished.
#[derive(Debug)]
pub(in crate::app) struct BundleDraft(Draft);

impl RescueDirectory<'_> {
    pub(in crate::app) fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// The name under which a rescue's bundle is kept.
    pub(in crate::app) fn name_for(rescue: &Rescue) -> String {
        format!("{}-{}.bundle", rescue.agent_name, rescue.id)
    }

    pub(in crate::app) fn begin(&self, rescue: &Rescue) -> io::Result<BundleDraft> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.directory)?;
        Draft::beside(&self.path(&Self::name_for(rescue))).map(BundleDraft)
    }

    /// The complete bundle of a rescue that the server did not record before it was killed.
    pub(in crate::app) fn existing(&self, rescue: &Rescue) -> Option<SavedWork> {
        let file = Self::name_for(rescue);
        let bundle = File::open(self.path(&file)).ok()?;
        let bytes = bundle.metadata().ok()?.len();
        let commit = commit_of(BufReader::new(bundle))?;
        Some(SavedWork { file, bytes, commit, note: None })
    }

    /// Removes partial bundles of a killed server, before any rescue starts.
    pub(in crate::app) fn sweep(&self) {
        if let Err(error) = files::sweep(self.directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an incomplete bundle could not be removed");
        }
    }
}

impl BundleDraft {
    pub(in crate::app) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.file().write_all(bytes)
    }

    /// Syncs the bundle to disk before it gets its name.
    pub(in crate::app) fn finish(mut self) -> io::Result<()> {
        self.0.place(Durability::Synced)
    }
}

/// The commit of the work ref, else of the first branch in the bundle.
fn commit_of(bundle: impl BufRead) -> Option<String> {
    let heads = Header::read(bundle).ok()?.heads;
    let work = heads.iter().find(|(_, name)| name == WORK).or(heads.first());
    work.map(|(id, _)| id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_says_which_commit_holds_the_work() {
        let [base, side, work] = ["1", "2", "3"].map(|digit| digit.repeat(40));
        let head = format!(
            "# v2 git bundle\n-{base} base\n{side} refs/rescue/branches/a\n{work} refs/rescue/work\n\nPACK\n"
        );
        assert_eq!(commit_of(head.as_bytes()), Some(work));
        let others = format!("# v3 git bundle\n@object-format=sha1\n{side} refs/rescue/branches/a\n\nPACK");
        assert_eq!(commit_of(others.as_bytes()), Some(side));
        assert_eq!(commit_of("# v2 git bundle\n\n".as_bytes()), None);
    }
}
