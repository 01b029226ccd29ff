//! The journal: facts are on disk before they are acknowledged, one JSON object per line, across restarts and
//! kills.

use std::fs::{File, OpenOptions};
use std::io::{self, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::entry::Entry;
use crate::files::{Draft, Durability, regular};

pub(super) const FILE: &str = "journal.jsonl";
/// Holds the last file that was found in the journal's place and cannot be a journal.
const BAD: &str = "journal.jsonl.bad";
/// A longer journal contains much that is obsolete.
const LONG: u64 = 8 * 1024 * 1024;
/// Longer than any journal of ours, even with the longest possible queue.
const LONGEST: u64 = 256 * 1024 * 1024;

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("cannot read the journal {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another runner uses {}", path.display())]
    Held { path: PathBuf },
    #[error(
        "line {line} of the journal {} is damaged; to start without its contents, move the file away",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot write to the journal")]
    Write(#[source] io::Error),
}

/// The open journal, locked for other processes.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    file: tokio::fs::File,
    length: u64,
}

impl Journal {
    /// Opens or creates the journal of a directory, and reads its content.
    pub(super) async fn open(directory: &Path) -> Result<(Self, Vec<Entry>), JournalError> {
        let path = directory.join(FILE);
        let failed = |source| JournalError::Read { path: path.clone(), source };
        let file = own(directory)?;
        let mut bytes = regular::bytes(&file, LONGEST).map_err(failed)?;
        // An incomplete line was never acknowledged.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
        let entries = read(&path, &bytes)?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        let file = tokio::fs::File::from_std(file);
        let mut journal = Self { directory: directory.to_owned(), file, length: whole as u64 };
        journal.cut().await.map_err(JournalError::Write)?;
        Ok((journal, entries))
    }

    /// Appends a fact durably. After a failure no part of it remains.
    pub(super) async fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let mut line =
            serde_json::to_vec(entry).map_err(|error| JournalError::Write(io::Error::other(error)))?;
        line.push(b'\n');
        match self.write(&line).await {
            Ok(()) => {
                self.length += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                if let Err(error) = self.cut().await {
                    tracing::warn!(%error, "an incomplete line stays in the journal until the next write");
                }
                Err(JournalError::Write(error))
            }
        }
    }

    pub(super) fn is_long(&self) -> bool {
        self.length > LONG
    }

    /// Replaces the journal by one with these facts, atomically. After a failure the old one stays.
    pub(super) async fn replace(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry).map_err(|error| JournalError::Write(error.into()))?;
            lines.push(b'\n');
        }
        let (directory, length) = (self.directory.clone(), lines.len() as u64);
        let placing = tokio::task::spawn_blocking(move || place(&directory, &lines));
        let (file, placed) =
            placing.await.map_err(io::Error::other).and_then(|placed| placed).map_err(JournalError::Write)?;
        self.file = tokio::fs::File::from_std(file);
        self.length = length;
        placed.map_err(JournalError::Write)
    }

    async fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.length)).await?;
        self.file.write_all(line).await?;
        // Writes continue in the background, and only a flush reports their result.
        self.file.flush().await?;
        self.file.sync_data().await
    }

    async fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.length).await?;
        self.file.sync_data().await
    }
}

/// Puts a journal with these lines in place, locked before another runner can find it. Once in place it is the one
/// to write to, even if a loss of power could still revert that.
fn place(directory: &Path, lines: &[u8]) -> io::Result<(File, io::Result<()>)> {
    let mut draft = Draft::beside(&directory.join(FILE))?;
    let file = draft.file().try_clone()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    draft.file().write_all(lines)?;
    match draft.place(Durability::Synced) {
        Err(error) if !draft.is_placed() => Err(error),
        placed => Ok((file, placed)),
    }
}

/// Opens and locks the journal of a directory. Something else in its place, put there by the agent, would fail
/// every start: it is moved aside, and a new journal begins.
fn own(directory: &Path) -> Result<File, JournalError> {
    let path = directory.join(FILE);
    let failed = |source| JournalError::Read { path: path.clone(), source };
    if is_irregular(&path) {
        put_aside(directory, "it is not a regular file").map_err(failed)?;
    }
    let file = lock(&path)?;
    if file.metadata().map_err(failed)?.len() <= LONGEST {
        return Ok(file);
    }
    put_aside(directory, "it is too large for a journal").map_err(failed)?;
    lock(&path)
}

fn lock(path: &Path) -> Result<File, JournalError> {
    let failed = |source| JournalError::Read { path: path.to_owned(), source };
    let file = open(path).map_err(failed)?;
    // The kernel releases the lock with the open file, also after a kill; engines do not inherit it.
    let held = || JournalError::Held { path: path.to_owned() };
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| held())?;
    // The runner that holds the journal may have replaced it by a shorter one, which is not the one we locked.
    if is_same(&file, path).map_err(failed)? { Ok(file) } else { Err(held()) }
}

/// Whether there is something other than a regular file or a link to one.
fn is_irregular(path: &Path) -> bool {
    match path.metadata() {
        Ok(found) => !found.is_file(),
        Err(_) => path.is_symlink(),
    }
}

fn put_aside(directory: &Path, reason: &str) -> io::Result<()> {
    let (path, bad) = (directory.join(FILE), directory.join(BAD));
    clear(&bad)?;
    std::fs::rename(&path, &bad)?;
    tracing::warn!(path = %path.display(), kept = %bad.display(), reason, "a new journal begins");
    Ok(())
}

/// Removes a file of any kind.
fn clear(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    regular::open(options.read(true).write(true).create(true).truncate(false).mode(0o600), path)
}

fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, there) = (file.metadata()?, std::fs::metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
}

fn read(path: &Path, bytes: &[u8]) -> Result<Vec<Entry>, JournalError> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let parse = |(number, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|source| JournalError::Damaged {
            path: path.to_owned(),
            line: number + 1,
            source,
        })
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::runner::entry::Source;

    fn accepted(content: &str) -> Entry {
        Entry::Accepted {
            at: DateTime::UNIX_EPOCH,
            source: Source::User,
            task_id: None,
            content: content.to_owned(),
            is_continued: false,
        }
    }

    #[tokio::test]
    async fn facts_are_read_back_and_a_torn_line_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, entries) = Journal::open(directory.path()).await.unwrap();
        assert_eq!(entries, []);
        journal.append(&accepted("one\ntwo")).await.unwrap();
        drop(journal);
        let path = directory.path().join(FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(b"{\"entry\":\"accep");
        std::fs::write(&path, bytes).unwrap();
        let (mut journal, entries) = Journal::open(directory.path()).await.unwrap();
        assert_eq!(entries, [accepted("one\ntwo")]);
        journal.append(&accepted("three")).await.unwrap();
        drop(journal);
        let (_journal, entries) = Journal::open(directory.path()).await.unwrap();
        assert_eq!(entries, [accepted("one\ntwo"), accepted("three")]);
    }

    #[tokio::test]
    async fn a_shorter_journal_takes_the_place_of_the_long_one_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(directory.path()).await.unwrap();
        journal.append(&accepted("long ago")).await.unwrap();
        journal.replace(&[accepted("one"), accepted("two")]).await.unwrap();
        journal.append(&accepted("three")).await.unwrap();
        let held = Journal::open(directory.path()).await.unwrap_err();
        assert!(matches!(held, JournalError::Held { .. }), "{held}");
        drop(journal);
        let (_journal, entries) = Journal::open(directory.path()).await.unwrap();
        assert_eq!(entries, [accepted("one"), accepted("two"), accepted("three")]);
    }

    #[tokio::test]
    async fn what_cannot_be_a_journal_is_put_aside_once_and_a_new_one_begins() {
        let directory = tempfile::tempdir().unwrap();
        let (path, bad) = (directory.path().join(FILE), directory.path().join(BAD));
        // Something else is in the place for bad journals.
        std::fs::create_dir_all(bad.join("full")).unwrap();
        let kinds: [(&str, &dyn Fn()); 5] = [
            ("fifo", &|| rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap()),
            ("directory", &|| std::fs::create_dir_all(path.join("full")).unwrap()),
            ("device", &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap()),
            ("loop", &|| std::os::unix::fs::symlink(&path, &path).unwrap()),
            ("sparse", &|| File::create(&path).unwrap().set_len(LONGEST + 1).unwrap()),
        ];
        for (kind, plant) in kinds {
            plant();
            let planted = path.symlink_metadata().unwrap();
            let (mut journal, entries) = Journal::open(directory.path()).await.expect(kind);
            assert_eq!(entries, [], "{kind}");
            let kept = bad.symlink_metadata().unwrap();
            assert_eq!((kept.ino(), kept.file_type()), (planted.ino(), planted.file_type()), "{kind}");
            journal.append(&accepted("one")).await.unwrap();
            journal.replace(&[accepted("two")]).await.unwrap();
            drop(journal);
            let (_journal, entries) = Journal::open(directory.path()).await.expect(kind);
            assert_eq!(entries, [accepted("two")], "{kind}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[tokio::test]
    async fn a_journal_that_another_runner_has_is_not_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(directory.path()).await.unwrap();
        journal.file.set_len(LONGEST + 1).await.unwrap();
        let held = Journal::open(directory.path()).await.unwrap_err();
        assert!(matches!(held, JournalError::Held { .. }), "{held}");
        assert!(!directory.path().join(BAD).exists());
    }

    #[tokio::test]
    async fn one_runner_has_the_journal_and_a_damaged_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(directory.path()).await.unwrap();
        let held = Journal::open(directory.path()).await.unwrap_err();
        assert!(matches!(held, JournalError::Held { .. }), "{held}");
        drop(journal);
        std::fs::write(directory.path().join(FILE), "{}\n").unwrap();
        let damaged = Journal::open(directory.path()).await.unwrap_err();
        assert!(matches!(damaged, JournalError::Damaged { line: 1, .. }), "{damaged}");
    }
}
