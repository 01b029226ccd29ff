//! The directory of rescued work: private, and without half-written files under a final name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::domain::bundle::Header;
use crate::domain::rescue::{Rescue, SavedWork};

/// A file that is not whole yet; the next try of the same rescue begins it anew.
const PART: &str = "part";
/// The name in a bundle of the commit that holds everything.
const WORK: &str = "refs/rescue/work";

#[derive(Debug, Clone, Copy)]
pub(in crate::app) struct Shelf<'a> {
    pub(in crate::app) directory: &'a Path,
}

/// A bundle on its way in.
#[derive(Debug)]
pub(in crate::app) struct Parcel {
    file: File,
    part: PathBuf,
    whole: PathBuf,
}

impl Shelf<'_> {
    pub(in crate::app) fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// The name under which a rescue's bundle is kept.
    pub(in crate::app) fn name_for(rescue: &Rescue) -> String {
        format!("{}-{}.bundle", rescue.agent_name, rescue.id)
    }

    pub(in crate::app) fn begin(&self, rescue: &Rescue) -> io::Result<Parcel> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.directory)?;
        let whole = self.path(&Self::name_for(rescue));
        let part = whole.with_extension(PART);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        Ok(Parcel { file, part, whole })
    }

    /// A bundle that is whole, though we did not live to record it: it says itself what it holds.
    pub(in crate::app) fn found(&self, rescue: &Rescue) -> Option<SavedWork> {
        let file = Self::name_for(rescue);
        let bundle = File::open(self.path(&file)).ok()?;
        let bytes = bundle.metadata().ok()?.len();
        let commit = commit_of(BufReader::new(bundle))?;
        Some(SavedWork { file, bytes, commit, note: None })
    }

    /// Takes away what a try that failed has left.
    pub(in crate::app) fn clear(&self, rescue: &Rescue) {
        remove(&self.path(&Self::name_for(rescue)).with_extension(PART));
    }

    /// Takes away what a killed server has left, before any try begins.
    pub(in crate::app) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(self.directory) else { return };
        let paths = entries.flatten().map(|entry| entry.path());
        paths
            .filter(|path| path.extension().is_some_and(|extension| extension == PART))
            .for_each(|part| remove(&part));
    }
}

fn remove(part: &Path) {
    if let Err(error) = std::fs::remove_file(part)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %part.display(), "a file that is not whole could not be removed");
    }
}

impl Parcel {
    pub(in crate::app) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// On disk for good before it has its name.
    pub(in crate::app) fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.part, &self.whole)
    }
}

/// Where the agent stood; where it had no commit of its own there, the first of its other branches.
fn commit_of(bundle: impl BufRead) -> Option<String> {
    let heads = Header::read(bundle).ok()?.heads;
    let work = heads.iter().find(|(_, name)| name == WORK).or(heads.first());
    work.map(|(id, _)| id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_leaves_whole_bundles_alone() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.part", "b.bundle"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        Shelf { directory: directory.path() }.sweep();
        let left = std::fs::read_dir(directory.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["b.bundle"]);
    }

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
