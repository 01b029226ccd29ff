//! Writes state files in the order of changes; several changes of one file become one write.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::LocalError;
use crate::files::{self, Durability};

type WriteResult = Result<(), Arc<std::io::Error>>;

#[derive(Debug)]
pub(crate) struct Writer {
    requests: mpsc::UnboundedSender<WriteRequest>,
}

#[derive(Debug)]
struct WriteRequest {
    path: PathBuf,
    content: Content,
    done: oneshot::Sender<WriteResult>,
}

/// The new content of a file.
#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// The file is removed.
    Nothing,
}

/// A pending write. A caller that acknowledges a change awaits it; others may drop it.
#[derive(Debug)]
#[must_use = "await the write, or call `unawaited`"]
pub(crate) struct PendingWrite {
    path: PathBuf,
    done: oneshot::Receiver<WriteResult>,
}

impl Writer {
    /// The writer and its task, which ends once `closing` is canceled and everything queued is written.
    pub(crate) fn new(closing: CancellationToken) -> (Self, impl Future<Output = ()>) {
        let (requests, received) = mpsc::unbounded_channel();
        (Self { requests }, work(received, closing))
    }

    /// Queues a write; if encoding failed, the file stays as it is.
    pub(crate) fn save(&self, path: PathBuf, encoded: std::io::Result<Vec<u8>>) -> PendingWrite {
        match encoded {
            Ok(bytes) => self.queue(path, Content::Bytes(bytes)),
            Err(error) => {
                let (answer, done) = oneshot::channel();
                // Cannot fail: the receiver is held in this function.
                let _receiver = answer.send(Err(Arc::new(error)));
                PendingWrite { path, done }
            }
        }
    }

    /// Queues the removal of the file.
    pub(crate) fn remove(&self, path: PathBuf) -> PendingWrite {
        self.queue(path, Content::Nothing)
    }

    fn queue(&self, path: PathBuf, content: Content) -> PendingWrite {
        let (answer, done) = oneshot::channel();
        // After the writer's end the pending write reports the failure.
        let _sent = self.requests.send(WriteRequest { path: path.clone(), content, done: answer });
        PendingWrite { path, done }
    }
}

impl PendingWrite {
    pub(crate) async fn done(self) -> Result<(), LocalError> {
        let closed = || Err(Arc::new(std::io::Error::other("the server is stopping")));
        let written = self.done.await.unwrap_or_else(|_| closed());
        written.map_err(|source| LocalError::Write { path: self.path, source })
    }

    /// Not awaited: a later write repeats it, or a crash makes it irrelevant.
    pub(crate) fn unawaited(self) {}

    /// Not acknowledged to a client: a failure is only logged.
    pub(crate) async fn logged(self) {
        if let Err(error) = self.done().await {
            tracing::error!(error = error.chain(), "the embedded Coder could not save its state");
        }
    }
}

async fn work(mut requests: mpsc::UnboundedReceiver<WriteRequest>, closing: CancellationToken) {
    loop {
        let first = tokio::select! {
            request = requests.recv() => request,
            () = closing.cancelled() => requests.try_recv().ok(),
        };
        let Some(first) = first else { return };
        let mut batch = vec![first];
        while let Ok(next) = requests.try_recv() {
            batch.push(next);
        }
        if let Err(error) = tokio::task::spawn_blocking(|| write_newest(batch)).await {
            tracing::error!(%error, "a batch of state files was not written");
        }
    }
}

/// Writes only the newest content of each file; its result answers the older requests too.
fn write_newest(batch: Vec<WriteRequest>) {
    let mut files: HashMap<PathBuf, (Content, Vec<oneshot::Sender<WriteResult>>)> = HashMap::new();
    for request in batch {
        let (content, waiting) = files.entry(request.path).or_insert((Content::Nothing, Vec::new()));
        *content = request.content;
        waiting.push(request.done);
    }
    for (path, (content, waiting)) in files {
        let written = put(&path, &content).map_err(Arc::new);
        for done in waiting {
            // An error means that the caller does not await the result.
            let _receiver = done.send(written.clone());
        }
    }
}

fn put(path: &Path, content: &Content) -> std::io::Result<()> {
    match content {
        Content::Bytes(bytes) => files::replace(path, bytes, Durability::Synced),
        Content::Nothing => match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_content_wins_and_everyone_hears_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        let closing = CancellationToken::new();
        let (writer, work) = Writer::new(closing.clone());
        let savings: Vec<PendingWrite> =
            (0..9).map(|n| writer.save(path.clone(), Ok(vec![b'0' + n]))).collect();
        closing.cancel();
        work.await;
        for saving in savings {
            saving.done().await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "8");
        let late = writer.save(path, Ok(vec![])).done().await.unwrap_err().chain();
        assert!(late.ends_with("a.json: the server is stopping"), "{late}");
    }

    #[tokio::test]
    async fn a_write_that_fails_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let closing = CancellationToken::new();
        let (writer, work) = Writer::new(closing.clone());
        let saving = writer.save(directory.path().join("absent/a.json"), Ok(vec![]));
        closing.cancel();
        work.await;
        let error = saving.done().await.unwrap_err().chain();
        assert!(error.contains("absent/a.json: No such file"), "{error}");
    }
}
