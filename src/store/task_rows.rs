//! Maps a task to its two rows: its journal entry and its delivery.

use chrono::TimeDelta;
use sqlx::{FromRow, Row};

use super::db::{DbConnection, DbQuery, DbRow};
use super::journal::{line_of, progress_of};
use super::row::{Columns, micros, micros_if_any, unreadable};
use crate::domain::id::TaskId;
use crate::domain::task::{
    Cancel, CancelCause, Channel, Claim, ClaimKind, Delivery, Escalation, Sending, Task, TaskOrigin,
    TaskStage, TaskWork, Verified, Work,
};

/// A query for whole tasks; `j` is the journal entry, `d` the delivery.
macro_rules! select_tasks {
    ($rest:expr) => {
        concat!(
            "SELECT j.id, j.agent_id, j.kind, j.message, j.state, j.outcome, j.source, j.task_id, j.uri, ",
            "j.needs_user_attention, j.generation, j.created_at, d.origin, d.is_urgent, d.step, d.channel, d.at, ",
            "d.base_message, d.is_answered, d.attempt, d.timeout_micros, d.working_since, d.last_sign, ",
            "d.silent_since, d.parked_until, d.cancel_at, d.cancel_by, d.cancel_may_stop, d.is_continued, d.worked_micros, d.claim, d.claim_text, d.claim_at, ",
            "d.reached, d.head_before, d.verified, d.verified_commit, d.verified_is_new, d.verified_is_pushed, ",
            "d.verified_is_clean FROM journal j JOIN task_deliveries d ON d.task_id = j.id ",
            $rest
        )
    };
}
pub(super) use select_tasks;

const UNSENT: &str = "unsent";
const SENDING: &str = "sending";
const TAKEN: &str = "taken";

/// Inserts a new task's delivery; its journal entry exists already.
pub(super) async fn insert(
    connection: &mut DbConnection,
    Task { id, work, .. }: &Task,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO task_deliveries (task_id, origin, is_urgent, timeout_micros, step, is_answered, attempt, \
         cancel_may_stop, reached, verified) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(id.0)
    .bind(work.origin.word())
    .bind(work.is_urgent)
    .bind(work.timeout.and_then(|timeout| timeout.num_microseconds()))
    .bind(UNSENT)
    .bind(false)
    .bind(work.attempt)
    .bind(false)
    .bind(work.reached.word())
    .bind(false)
    .execute(connection)
    .await
    .map(drop)
}

/// Writes only the columns that the delivering worker may change, without cancel and claim, which others write
/// meanwhile. A claim belongs to its attempt.
pub(super) async fn update(
    connection: &mut DbConnection,
    Task { id, stage, work, .. }: &Task,
) -> Result<(), sqlx::Error> {
    let Work { delivery, since } = stage.work();
    let verified = stage.verified();
    let update = sqlx::query(
        "UPDATE task_deliveries SET step = $1, channel = $2, at = $3, base_message = $4, is_answered = $5, \
         attempt = $6, working_since = $7, last_sign = $8, silent_since = $9, parked_until = $10, reached = $11, \
         head_before = $12, verified = $13, verified_commit = $14, verified_is_new = $15, \
         verified_is_pushed = $16, verified_is_clean = $17, \
         claim = CASE WHEN attempt = $6 THEN claim END, is_continued = $18, worked_micros = $19 WHERE task_id = $20",
    );
    bind_delivery(update, delivery)
        .bind(work.attempt)
        .bind(micros_if_any(since))
        .bind(micros_if_any(work.last_sign))
        .bind(micros_if_any(work.silent_since))
        .bind(micros_if_any(work.parked_until))
        .bind(work.reached.word())
        .bind(work.head_before.clone())
        .bind(verified.is_some())
        .bind(verified.and_then(|seen| seen.commit.clone()))
        .bind(verified.and_then(|seen| seen.is_new))
        .bind(verified.map(|seen| seen.is_pushed))
        .bind(verified.map(|seen| seen.is_clean))
        .bind(work.is_continued)
        .bind(work.worked.num_microseconds().unwrap_or(i64::MAX))
        .bind(id.0)
        .execute(connection)
        .await
        .map(drop)
}

/// The five columns of a delivery: step, channel, at, base_message, is_answered.
fn bind_delivery(query: DbQuery<'_>, delivery: Delivery) -> DbQuery<'_> {
    let (step, way, answered) = match delivery {
        Delivery::Unsent => (UNSENT, None, false),
        Delivery::Sending(Sending { channel, at, base, is_acknowledged }) => {
            (SENDING, Some((channel, at, base)), is_acknowledged)
        }
        Delivery::Delivered { channel, at, base } => (TAKEN, Some((channel, at, base)), false),
    };
    query
        .bind(step)
        .bind(way.map(|(channel, _, _)| channel.word()))
        .bind(way.map(|(_, at, _)| micros(at)))
        .bind(way.and_then(|(_, _, base)| base))
        .bind(answered)
}

fn delivery_of(row: &DbRow) -> Result<Delivery, sqlx::Error> {
    let step: &str = row.try_get("step")?;
    if step == UNSENT {
        return Ok(Delivery::Unsent);
    }
    let (channel, at) = (row.word("channel", Channel::parse)?, row.time("at")?);
    let base = row.try_get("base_message")?;
    match step {
        SENDING => {
            let is_acknowledged = row.try_get("is_answered")?;
            Ok(Delivery::Sending(Sending { channel, at, base, is_acknowledged }))
        }
        TAKEN => Ok(Delivery::Delivered { channel, at, base }),
        other => Err(unreadable("step", other)),
    }
}

fn cancel_of(row: &DbRow) -> Result<Option<Cancel>, sqlx::Error> {
    let Some(at) = row.time_if_any("cancel_at")? else { return Ok(None) };
    let by = row.id_if_any("cancel_by", TaskId)?;
    let cause = by.map_or(CancelCause::Request, CancelCause::Interrupt);
    Ok(Some(Cancel { at, cause, may_stop: row.try_get("cancel_may_stop")? }))
}

fn claim_of(row: &DbRow) -> Result<Option<Claim>, sqlx::Error> {
    let Some(kind) = row.word_if_any("claim", ClaimKind::parse)? else { return Ok(None) };
    Ok(Some(Claim { kind, text: row.try_get("claim_text")?, at: row.time("claim_at")? }))
}

pub(super) fn verified_of(row: &DbRow) -> Result<Option<Verified>, sqlx::Error> {
    if !row.try_get::<bool, _>("verified")? {
        return Ok(None);
    }
    Ok(Some(Verified {
        commit: row.try_get("verified_commit")?,
        is_new: row.try_get("verified_is_new")?,
        is_pushed: row.try_get("verified_is_pushed")?,
        is_clean: row.try_get("verified_is_clean")?,
    }))
}

/// State, outcome and delivery of a row make one stage; a row that contradicts itself is refused.
fn stage_of(row: &DbRow) -> Result<TaskStage, sqlx::Error> {
    let work = Work { delivery: delivery_of(row)?, since: row.time_if_any("working_since")? };
    let progress = progress_of(row)?;
    let state = progress.state();
    TaskStage::of(progress, work, verified_of(row)?)
        .ok_or_else(|| unreadable("step", format!("{:?} of a task that is {state}", work.delivery)))
}

impl FromRow<'_, DbRow> for Task {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        let work = TaskWork {
            origin: row.word("origin", TaskOrigin::parse)?,
            is_urgent: row.try_get("is_urgent")?,
            attempt: row.try_get("attempt")?,
            is_continued: row.try_get("is_continued")?,
            timeout: row.try_get::<Option<i64>, _>("timeout_micros")?.map(TimeDelta::microseconds),
            worked: TimeDelta::microseconds(row.try_get("worked_micros")?),
            last_sign: row.time_if_any("last_sign")?,
            silent_since: row.time_if_any("silent_since")?,
            parked_until: row.time_if_any("parked_until")?,
            cancel: cancel_of(row)?,
            reached: row.word("reached", Escalation::parse)?,
            claim: claim_of(row)?,
            head_before: row.try_get("head_before")?,
        };
        Ok(Self { id: row.id("id", TaskId)?, entry: line_of(row)?, stage: stage_of(row)?, work })
    }
}
