//! The output of runs: the beginning of each stream, appended in chunks and read in pages.

use chrono::{DateTime, Utc};
use sqlx::Row;
use uuid::Uuid;

use super::Store;
use super::db::DbConnection;
use super::error::StoreError;
use super::row::{Columns, count, micros};
use super::runs::signed;
use crate::domain::id::RunId;
use crate::domain::run::{KEPT_OUTPUT, RunChunk, RunOutput, RunStream};

/// Longer chunks are split, so that a page never reads far beyond its bounds.
const PIECE: usize = 64 << 10;
const REMOVED_AT_ONCE: i64 = 5;

impl Store {
    /// Appends chunks of a run's streams and their end offsets in one transaction, so that a restart continues
    /// exactly there. Known chunks change nothing; ended runs get no more output.
    pub async fn run_append(&self, id: RunId, chunks: &[RunChunk]) -> Result<(), StoreError> {
        // It can be long and would use up the reserve; the output is still in the workspace.
        self.room_for_new_work()?;
        let mut tx = self.begin().await?;
        for chunk in chunks {
            if advance(&mut tx, id, chunk).await? {
                insert(&mut tx, id, chunk).await?;
            }
        }
        Ok(tx.commit().await?)
    }

    /// Records the length of both streams, including output that was not kept.
    pub async fn run_written(&self, id: RunId, stdout: u64, stderr: u64) -> Result<(), StoreError> {
        let update = sqlx::query(
            "UPDATE runs SET stdout = CASE WHEN stdout < $1 THEN $1 ELSE stdout END, \
             stderr = CASE WHEN stderr < $2 THEN $2 ELSE stderr END WHERE id = $3 AND ended_at IS NULL",
        );
        update.bind(signed(stdout)).bind(signed(stderr)).bind(id.0).execute(&self.write).await?;
        Ok(())
    }

    /// A page of a stream, from an offset on.
    pub async fn run_output(
        &self,
        id: RunId,
        stream: RunStream,
        offset: u64,
        limit: u64,
    ) -> Result<RunOutput, StoreError> {
        let mut read = self.read.begin().await?;
        let row = sqlx::query("SELECT stdout, stderr, output_removed_at FROM runs WHERE id = $1").bind(id.0);
        let row = row.fetch_optional(&mut *read).await?.ok_or(StoreError::Missing("run"))?;
        let written = count(row.try_get(stream.word())?);
        let removed_at = row.time_if_any("output_removed_at")?;
        let rows = sqlx::query(
            "SELECT start, bytes FROM run_output WHERE run_id = $1 AND stream = $2 AND start > $3 AND start < $4 \
             ORDER BY start",
        )
        .bind(id.0)
        .bind(stream.word())
        .bind(signed(offset) - signed(PIECE as u64))
        .bind(signed(offset.saturating_add(limit)))
        .fetch_all(&mut *read)
        .await?;
        let mut bytes = Vec::new();
        for row in rows {
            let start = count(row.try_get("start")?);
            let piece: &[u8] = row.try_get("bytes")?;
            let skipped = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
            bytes.extend_from_slice(piece.get(skipped..).unwrap_or_default());
        }
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let kept = if removed_at.is_none() { written.min(KEPT_OUTPUT) } else { 0 };
        Ok(RunOutput { offset, bytes, kept, written, removed_at })
    }

    /// Removes the output of runs that ended before this time, a few runs per call: outputs are long, and other
    /// writers wait. Returns the number of runs.
    pub async fn run_outputs_prune(
        &self,
        ended_before: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let mut tx = self.begin().await?;
        let old: Vec<Uuid> = sqlx::query_scalar(
            "SELECT id FROM runs WHERE output_removed_at IS NULL AND ended_at IS NOT NULL AND ended_at < $1 \
             ORDER BY ended_at LIMIT $2",
        )
        .bind(micros(ended_before))
        .bind(REMOVED_AT_ONCE)
        .fetch_all(&mut *tx)
        .await?;
        for run in &old {
            sqlx::query("DELETE FROM run_output WHERE run_id = $1").bind(run).execute(&mut *tx).await?;
            let mark = sqlx::query("UPDATE runs SET output_removed_at = $1 WHERE id = $2");
            mark.bind(micros(at)).bind(run).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(old.len())
    }
}

/// Moves the stream's end offset to the end of the chunk; false if the chunk does not continue the stream.
async fn advance(tx: &mut DbConnection, id: RunId, chunk: &RunChunk) -> Result<bool, StoreError> {
    let update = sqlx::query(match chunk.stream {
        RunStream::Stdout => "UPDATE runs SET stdout = $1 WHERE id = $2 AND stdout = $3 AND ended_at IS NULL",
        RunStream::Stderr => "UPDATE runs SET stderr = $1 WHERE id = $2 AND stderr = $3 AND ended_at IS NULL",
    });
    let end = chunk.offset + chunk.bytes.len() as u64;
    let update = update.bind(signed(end)).bind(id.0).bind(signed(chunk.offset));
    Ok(update.execute(tx).await?.rows_affected() == 1)
}

/// Stores the part of the chunk that fits.
async fn insert(tx: &mut DbConnection, id: RunId, chunk: &RunChunk) -> Result<(), StoreError> {
    let room = usize::try_from(KEPT_OUTPUT.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
    let kept = chunk.bytes.get(..room).unwrap_or(&chunk.bytes);
    for (n, piece) in kept.chunks(PIECE).enumerate() {
        let start = chunk.offset + (n * PIECE) as u64;
        sqlx::query("INSERT INTO run_output (run_id, stream, start, bytes) VALUES ($1, $2, $3, $4)")
            .bind(id.0)
            .bind(chunk.stream.word())
            .bind(signed(start))
            .bind(piece)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}
