//! Collects a run's output and stores it in batches, to limit the number of writes.

use tokio::time::{Instant, sleep_until};

use crate::app::Fleet;
use crate::app::engine_runs::LiveReading;
use crate::app::error::Error;
use crate::coder::exec::OutputStream;
use crate::domain::id::RunId;
use crate::domain::run::{Run, RunChunk, RunStream};

/// A batch is stored at this size, or after a delay.
const BATCH_BYTES: usize = 256 << 10;

pub(super) struct Recorder<'a> {
    fleet: &'a Fleet,
    run: RunId,
    /// Reads an engine's output as soon as it is stored.
    reading: &'a mut Option<LiveReading>,
    chunks: Vec<RunChunk>,
    n_bytes: usize,
    due: Option<Instant>,
}

impl<'a> Recorder<'a> {
    /// Reads the output stored before the server started.
    pub(super) async fn new(
        fleet: &'a Fleet,
        run: &Run,
        reading: &'a mut Option<LiveReading>,
    ) -> Result<Self, Error> {
        if let Some(reading) = reading {
            fleet.engine_run_read(&fleet.run_show(run.id).await?, reading).await?;
        }
        Ok(Self { fleet, run: run.id, reading, chunks: Vec::new(), n_bytes: 0, due: None })
    }

    /// Extends the last chunk of the same stream, since output comes in small pieces.
    pub(super) async fn push(
        &mut self,
        stream: OutputStream,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let stream = stream_of(stream);
        match self.chunks.last_mut().filter(|last| last.stream == stream) {
            Some(last) => last.bytes.extend_from_slice(bytes),
            None => self.chunks.push(RunChunk { stream, offset, bytes: bytes.to_vec() }),
        }
        self.n_bytes += bytes.len();
        self.due.get_or_insert_with(|| Instant::now() + self.fleet.limits().run_write);
        if self.n_bytes >= BATCH_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Returns when the batch is due.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        let chunks = std::mem::take(&mut self.chunks);
        (self.n_bytes, self.due) = (0, None);
        if !chunks.is_empty() {
            self.fleet.store().run_append(self.run, &chunks).await?;
            let run = self.fleet.run_show(self.run).await?;
            self.fleet.0.runs.publish(&run);
            if let Some(reading) = self.reading {
                self.fleet.engine_run_read(&run, reading).await?;
            }
        }
        Ok(())
    }
}

fn stream_of(stream: OutputStream) -> RunStream {
    match stream {
        OutputStream::Stdout => RunStream::Stdout,
        OutputStream::Stderr => RunStream::Stderr,
    }
}
