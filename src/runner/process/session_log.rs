//! Follows the session log, in which an engine reports more than it prints.

use std::fs::OpenOptions;
use std::io::SeekFrom;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::engine::{EngineEvent, Lines, Reader, RunUsage, SessionLog};
use crate::files::regular;

const CHUNK: usize = 64 * 1024;
/// Year, month, day, file.
const MAX_DEPTH: usize = 4;

/// The file, once found, and the offset read so far.
#[derive(Debug, Default)]
pub(super) struct SessionLogReader {
    path: Option<PathBuf>,
    n_read: u64,
    lines: Lines,
}

impl SessionLogReader {
    /// Passes on every new line. A missing file has none.
    pub(super) async fn read(&mut self, wanted: &SessionLog, mut each: impl FnMut(&str)) {
        if self.path.is_none() {
            let wanted = wanted.clone();
            let found = tokio::task::spawn_blocking(move || find(&wanted.root, &wanted.ending, MAX_DEPTH));
            self.path = found.await.ok().flatten();
        }
        let Some(path) = self.path.clone() else { return };
        let opened = tokio::task::spawn_blocking(move || regular::open(OpenOptions::new().read(true), &path));
        let Ok(Ok(file)) = opened.await else { return };
        let mut file = tokio::fs::File::from_std(file);
        if file.seek(SeekFrom::Start(self.n_read)).await.is_err() {
            return;
        }
        let mut chunk = vec![0; CHUNK];
        while let Ok(n_read @ 1..) = file.read(&mut chunk).await {
            self.lines.push(&chunk[..n_read], &mut each);
            self.n_read += n_read as u64;
        }
    }
}

/// The last usage in the session log of an earlier run.
pub(crate) async fn recall(mut reader: Box<dyn Reader>) -> Option<RunUsage> {
    let file = reader.session_log()?;
    let mut last = None;
    let spent = |event| match event {
        EngineEvent::Usage(spent) => Some(spent),
        EngineEvent::Text(_) | EngineEvent::Session(_) => None,
    };
    let each = |line: &str| {
        let newest = reader.session_log_line(line).into_iter().filter_map(spent).next_back();
        last = newest.or(last.take());
    };
    SessionLogReader::default().read(&file, each).await;
    last
}

/// Newest names first: the file of a running engine is there.
fn find(folder: &Path, ending: &str, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<_> = std::fs::read_dir(folder).ok()?.flatten().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
    let is_wanted = |entry: &&std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with(ending);
    if let Some(entry) = entries.iter().find(is_wanted) {
        return Some(entry.path());
    }
    let folders = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let deeper = depth.checked_sub(1)?;
    folders.map(std::fs::DirEntry::path).find_map(|folder| find(&folder, ending, deeper))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn lines_are_given_once_and_only_when_they_are_whole() {
        let root = tempfile::tempdir().unwrap();
        let wanted = SessionLog { root: root.path().to_owned(), ending: "thread-7.jsonl".into() };
        let (mut log, mut seen) = (SessionLogReader::default(), Vec::new());
        log.read(&wanted, |line| seen.push(line.to_owned())).await;
        let folder = root.path().join("2026/11/16");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("rollout-thread-8.jsonl"), "another\n").unwrap();
        let mut file = std::fs::File::create(folder.join("rollout-thread-7.jsonl")).unwrap();
        for (written, expected) in [("one\ntw", 1), ("o\n", 2), ("", 2), ("three\n", 3)] {
            file.write_all(written.as_bytes()).unwrap();
            log.read(&wanted, |line| seen.push(line.to_owned())).await;
            assert_eq!(seen.len(), expected, "{written:?}");
        }
        assert_eq!(seen, ["one", "two", "three"]);
    }
}
