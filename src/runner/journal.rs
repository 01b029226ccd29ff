//! The journal: facts on disk before anybody is told, one JSON object a line, kept over restarts and kills.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::conversation::Entry;

pub(super) const FILE: &str = "journal.jsonl";

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("cannot read the journal {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another runner works on {}", path.display())]
    Held { path: PathBuf },
    #[error("line {line} of the journal {} is damaged", path.display())]
    Damaged {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot write to the journal")]
    Write(#[source] io::Error),
}

/// The open journal; nobody else can have it meanwhile.
#[derive(Debug)]
pub(super) struct Journal {
    file: tokio::fs::File,
    length: u64,
}

impl Journal {
    /// Opens or begins the journal of a directory, and reads what it holds.
    pub(super) async fn open(directory: &Path) -> Result<(Self, Vec<Entry>), JournalError> {
        let path = directory.join(FILE);
        let failed = |source| JournalError::Read { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        // The lock goes with the open file, also when we are killed; engines do not inherit it.
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::Held { path: path.clone() })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        // A line that was never finished was never promised to anybody.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
        let entries = read(&path, &bytes)?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
        let mut journal = Self { file: tokio::fs::File::from_std(file), length: whole as u64 };
        journal.cut().await.map_err(JournalError::Write)?;
        Ok((journal, entries))
    }

    /// Writes a fact down for good. After a failure nothing of it is left.
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
                    tracing::warn!(%error, "half a line stays in the journal until the next write");
                }
                Err(JournalError::Write(error))
            }
        }
    }

    async fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.length)).await?;
        self.file.write_all(line).await?;
        // Writing goes on in the background, and only a flush tells whether it worked.
        self.file.flush().await?;
        self.file.sync_data().await
    }

    async fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.length).await?;
        self.file.sync_data().await
    }
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
    use crate::runner::conversation::Source;

    fn accepted(content: &str) -> Entry {
        Entry::Accepted {
            at: DateTime::UNIX_EPOCH,
            source: Source::User,
            task_id: None,
            content: content.to_owned(),
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
