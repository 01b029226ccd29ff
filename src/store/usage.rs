//! The usage of agents: counters that only grow, and what each day added.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{FromRow, Row};

use super::Store;
use super::db::{DbConnection, DbRow};
use super::error::StoreError;
use super::journal_window::day_of;
use super::row::{Columns, count, micros};
use super::runs::signed;
use crate::domain::id::AgentId;
use crate::domain::usage::{CounterChange, Figures, Mark, OWN_RECORD, Spender, UsageTotal};

/// If an agent's record is older than this, its first figure counts for the day of its creation, since the actual
/// days are unknown. A run is counted when it ends.
const KNOWN_FROM_THE_START: TimeDelta = TimeDelta::hours(24);

/// A reported figure of one of an agent's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReport {
    pub agent: AgentId,
    pub source: String,
    pub spender: Spender,
    pub mark: Mark,
}

/// The effect of reported figures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageChanges {
    /// The new totals of agents with changes.
    pub changed: Vec<(AgentId, UsageTotal)>,
    /// Agents whose figures are implausible.
    pub rejected: Vec<AgentId>,
}

macro_rules! select_totals {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " d.spender, CAST(sum(d.input_tokens) AS BIGINT) AS input_tokens, ",
            "CAST(sum(d.output_tokens) AS BIGINT) AS output_tokens, CAST(sum(d.cost_micros) AS BIGINT) AS cost_micros, ",
            "CAST(sum(d.unknown_runs) AS BIGINT) AS unknown_runs FROM usage_days d ",
            $rest
        )
    };
}

impl Store {
    /// Counts figures; known figures add nothing. Counters of unknown agents are ignored.
    pub async fn usage_count(
        &self,
        report: &[UsageReport],
        at: DateTime<Utc>,
    ) -> Result<UsageChanges, StoreError> {
        let mut counted = UsageChanges::default();
        let mut tx = self.begin().await?;
        for report in report {
            match count_one(&mut tx, report, at).await? {
                Some(CounterChange::Grown { .. }) => {
                    counted.changed.push((report.agent, total_of(&mut tx, report.agent).await?));
                }
                Some(CounterChange::Absurd) => counted.rejected.push(report.agent),
                Some(CounterChange::Same) | None => {}
            }
        }
        tx.commit().await?;
        Ok(counted)
    }

    /// Records a run without reported usage, once; returns the agent's new total if it was new.
    pub async fn usage_unknown(
        &self,
        (agent, source): (AgentId, &str),
        spender: Spender,
        at: DateTime<Utc>,
    ) -> Result<Option<UsageTotal>, StoreError> {
        let mut tx = self.begin().await?;
        let noted = sqlx::query(
            "INSERT INTO usage_counters (agent_id, source, generation, input_tokens, output_tokens, unknown_runs) \
             SELECT id, $2, 0, 0, 0, 1 FROM agents WHERE id = $1 ON CONFLICT (agent_id, source) DO NOTHING",
        );
        if noted.bind(agent.0).bind(source).execute(&mut *tx).await?.rows_affected() == 0 {
            return Ok(None);
        }
        add(&mut tx, agent, (day_of(micros(at)), spender), &Figures::unknown(1)).await?;
        let total = total_of(&mut tx, agent).await?;
        tx.commit().await?;
        Ok(Some(total))
    }

    /// The highest figures reported to one of an agent's counters; zero for an unknown counter.
    pub async fn usage_counter(&self, agent: AgentId, source: &str) -> Result<Figures, StoreError> {
        let mut connection = self.read.acquire().await?;
        let mark = mark_of(&mut connection, (agent, source)).await?;
        Ok(mark.map(|mark| mark.highest).unwrap_or_default())
    }

    pub async fn usage_of(&self, agent: AgentId) -> Result<UsageTotal, StoreError> {
        let mut connection = self.read.acquire().await?;
        Ok(total_of(&mut connection, agent).await?)
    }

    /// The totals of every live agent with usage.
    pub async fn usage_live(&self) -> Result<Vec<(AgentId, UsageTotal)>, StoreError> {
        let rows: Vec<DbRow> = sqlx::query(select_totals!(
            "d.agent_id,",
            "JOIN agents a ON a.id = d.agent_id WHERE a.deleted_at IS NULL GROUP BY d.agent_id, d.spender \
             ORDER BY d.agent_id"
        ))
        .fetch_all(&self.read)
        .await?;
        let mut totals: Vec<(AgentId, UsageTotal)> = Vec::new();
        for row in rows {
            let (agent, part) = (row.id("agent_id", AgentId)?, Part::from_row(&row)?);
            match totals.last_mut().filter(|(last, _)| *last == agent) {
                Some((_, total)) => *total = part.added_to(total),
                None => totals.push((agent, part.added_to(&UsageTotal::default()))),
            }
        }
        Ok(totals)
    }

    /// The usage of all agents on the UTC day of this moment, including deleted ones.
    pub async fn usage_on(&self, at: DateTime<Utc>) -> Result<UsageTotal, StoreError> {
        let parts: Vec<Part> = sqlx::query_as(select_totals!("", "WHERE d.day = $1 GROUP BY d.spender"))
            .bind(day_of(micros(at)))
            .fetch_all(&self.read)
            .await?;
        Ok(sum(&parts))
    }
}

/// None if the agent is unknown.
async fn count_one(
    connection: &mut DbConnection,
    report: &UsageReport,
    at: DateTime<Utc>,
) -> Result<Option<CounterChange>, sqlx::Error> {
    let created_at: Option<i64> = sqlx::query_scalar("SELECT created_at FROM agents WHERE id = $1")
        .bind(report.agent.0)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(created_at) = created_at else { return Ok(None) };
    let known = mark_of(connection, (report.agent, &report.source)).await?;
    let is_from_before =
        known.is_none() && report.source == OWN_RECORD && created_at < micros(at - KNOWN_FROM_THE_START);
    let day = day_of(if is_from_before { created_at } else { micros(at) });
    let step = Mark::step(known, report.mark, &day_total(connection, report.agent, day).await?);
    if let CounterChange::Grown { mark, added } = &step {
        keep_mark(connection, report, mark).await?;
        add(connection, report.agent, (day, report.spender), added).await?;
    }
    Ok(Some(step))
}

async fn mark_of(
    connection: &mut DbConnection,
    (agent, source): (AgentId, &str),
) -> Result<Option<Mark>, sqlx::Error> {
    let row = sqlx::query(
        "SELECT generation, input_tokens, output_tokens, cost_micros, unknown_runs FROM usage_counters \
         WHERE agent_id = $1 AND source = $2",
    );
    let row = row.bind(agent.0).bind(source).fetch_optional(connection).await?;
    row.map(|row| Ok(Mark { generation: row.try_get("generation")?, highest: figures(&row)? })).transpose()
}

async fn keep_mark(
    connection: &mut DbConnection,
    report: &UsageReport,
    mark: &Mark,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO usage_counters (agent_id, source, generation, input_tokens, output_tokens, cost_micros, unknown_runs) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (agent_id, source) DO UPDATE SET \
         generation = excluded.generation, input_tokens = excluded.input_tokens, \
         output_tokens = excluded.output_tokens, cost_micros = excluded.cost_micros, \
         unknown_runs = excluded.unknown_runs",
    )
    .bind(report.agent.0)
    .bind(&report.source)
    .bind(mark.generation)
    .bind(signed(mark.highest.input_tokens))
    .bind(signed(mark.highest.output_tokens))
    .bind(mark.highest.cost_micros.map(signed))
    .bind(signed(mark.highest.unknown_runs))
    .execute(connection)
    .await
    .map(drop)
}

async fn add(
    connection: &mut DbConnection,
    agent: AgentId,
    (day, spender): (i64, Spender),
    added: &Figures,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO usage_days (agent_id, day, spender, input_tokens, output_tokens, cost_micros, unknown_runs) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (agent_id, day, spender) DO UPDATE SET \
         input_tokens = usage_days.input_tokens + excluded.input_tokens, \
         output_tokens = usage_days.output_tokens + excluded.output_tokens, \
         cost_micros = CASE WHEN usage_days.cost_micros IS NULL THEN excluded.cost_micros \
         ELSE usage_days.cost_micros + coalesce(excluded.cost_micros, 0) END, \
         unknown_runs = usage_days.unknown_runs + excluded.unknown_runs",
    )
    .bind(agent.0)
    .bind(day)
    .bind(spender.word())
    .bind(signed(added.input_tokens))
    .bind(signed(added.output_tokens))
    .bind(added.cost_micros.map(signed))
    .bind(signed(added.unknown_runs))
    .execute(connection)
    .await
    .map(drop)
}

async fn total_of(connection: &mut DbConnection, agent: AgentId) -> Result<UsageTotal, sqlx::Error> {
    let query = sqlx::query_as(select_totals!("", "WHERE d.agent_id = $1 GROUP BY d.spender"));
    Ok(sum(&query.bind(agent.0).fetch_all(connection).await?))
}

async fn day_total(connection: &mut DbConnection, agent: AgentId, day: i64) -> Result<Figures, sqlx::Error> {
    let query = sqlx::query_as(select_totals!("", "WHERE d.agent_id = $1 AND d.day = $2 GROUP BY d.spender"));
    let parts: Vec<Part> = query.bind(agent.0).bind(day).fetch_all(connection).await?;
    Ok(sum(&parts).all)
}

/// The share of one spender in a total.
struct Part {
    spender: Spender,
    figures: Figures,
}

impl Part {
    fn added_to(&self, total: &UsageTotal) -> UsageTotal {
        let own = match self.spender {
            Spender::Agent => total.own.plus(&self.figures),
            Spender::Member => total.own,
        };
        UsageTotal { own, all: total.all.plus(&self.figures) }
    }
}

fn sum(parts: &[Part]) -> UsageTotal {
    parts.iter().fold(UsageTotal::default(), |total, part| part.added_to(&total))
}

fn figures(row: &DbRow) -> Result<Figures, sqlx::Error> {
    Ok(Figures {
        input_tokens: count(row.try_get("input_tokens")?),
        output_tokens: count(row.try_get("output_tokens")?),
        cost_micros: row.try_get::<Option<i64>, _>("cost_micros")?.map(count),
        unknown_runs: count(row.try_get("unknown_runs")?),
    })
}

impl FromRow<'_, DbRow> for Part {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self { spender: row.word("spender", Spender::parse)?, figures: figures(row)? })
    }
}
