//! Finds the task of a report: reports come from Coder, which does not know tasks.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::Row;

use super::db::{DbConnection, DbRow};
use super::row::{Columns, micros};
use crate::domain::history::Report;
use crate::domain::id::TaskId;
use crate::domain::text::one_line;
use crate::domain::words::AppState;

/// How much later than its end the last report of a task may arrive; runners retry that long without other news.
const REPORT_DELAY: TimeDelta = TimeDelta::seconds(30);
/// A runner delays a report for a moment, and the next task may be delivered meanwhile.
const HELD_BACK: TimeDelta = TimeDelta::seconds(2);
/// Runners end a truncated report with this.
const CUT: char = '…';

/// The two tasks delivered last before a time that had not ended long before; what runs beside the agent is
/// excluded. A workspace starts with its spec, so the spec has no delivery; all other tasks are delivered before
/// the agent knows of them.
macro_rules! working_at {
    () => {
        concat!(
            "SELECT task_id, outcome, told_at FROM (SELECT task_id, outcome, ",
            "CASE WHEN origin = 'spec' AND attempt = 1 THEN created_at ELSE at END AS told_at FROM (SELECT id, created_at, outcome FROM journal WHERE agent_id = $1 AND ended_at IS NULL UNION ALL ",
            "SELECT id, created_at, outcome FROM journal WHERE agent_id = $1 AND kind = 'task' AND ended_at >= $3) AS recent ",
            "JOIN task_deliveries ON task_id = recent.id WHERE origin <> 'run') AS told WHERE told_at <= $2 ",
            "ORDER BY told_at DESC LIMIT 2"
        )
    };
}

/// A task that a report may belong to.
struct Candidate {
    task: TaskId,
    told_at: DateTime<Utc>,
    outcome: Option<String>,
}

/// The task that the agent was working on when it reported, if any.
pub(super) async fn task_of(
    connection: &mut DbConnection,
    report: &Report,
) -> Result<Option<TaskId>, sqlx::Error> {
    let rows = sqlx::query(working_at!())
        .bind(report.line.agent_id.0)
        .bind(micros(report.line.created_at))
        .bind(micros(report.line.created_at - REPORT_DELAY))
        .fetch_all(connection)
        .await?;
    let candidates = rows.iter().map(Candidate::read).collect::<Result<Vec<_>, _>>()?;
    Ok(owner(&candidates, report))
}

/// The newest one, unless the report is about the end of the previous one.
fn owner(candidates: &[Candidate], report: &Report) -> Option<TaskId> {
    let newest = candidates.first()?;
    let is_just_told = report.line.created_at - newest.told_at < HELD_BACK;
    let is_end = report.state != AppState::Working;
    let late =
        candidates.get(1).filter(|_| is_just_told && is_end && !newest.ended_with(&report.line.message));
    let late = late.filter(|before| before.ended_with(&report.line.message));
    Some(late.unwrap_or(newest).task)
}

impl Candidate {
    fn read(row: &DbRow) -> Result<Self, sqlx::Error> {
        let (task, told_at) = (row.id("task_id", TaskId)?, row.time("told_at")?);
        Ok(Self { task, told_at, outcome: row.try_get("outcome")? })
    }

    fn ended_with(&self, message: &str) -> bool {
        let reported = message.trim_end_matches(CUT);
        self.outcome.as_deref().is_some_and(|outcome| one_line(outcome).starts_with(reported))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::history::HistoryLine;
    use crate::domain::id::AgentId;
    use crate::domain::task::TaskSource;
    use crate::store::db::query_plan;
    use crate::store::{Store, StoreOptions};

    fn at(milliseconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(milliseconds)
    }

    fn report(state: &str, message: &str, milliseconds: i64) -> Report {
        Report {
            id: Uuid::nil(),
            line: HistoryLine {
                agent_id: AgentId(Uuid::nil()),
                message: message.to_owned(),
                source: TaskSource::Agent,
                generation: 1,
                created_at: at(milliseconds),
            },
            state: AppState::from_word(state),
            task_id: None,
            uri: None,
            needs_answer: false,
        }
    }

    #[test]
    fn a_report_is_of_the_task_told_last_unless_it_says_how_the_one_before_ended() {
        let (newer, older) = (TaskId(Uuid::from_u128(2)), TaskId(Uuid::from_u128(1)));
        let candidate = |task, milliseconds, outcome: Option<&str>| Candidate {
            task,
            told_at: at(milliseconds),
            outcome: outcome.map(str::to_owned),
        };
        let both = [candidate(newer, 5_000, None), candidate(older, 0, Some("all\nis well here"))];
        let of = |state, message, milliseconds| owner(&both, &report(state, message, milliseconds));
        assert_eq!(of("complete", "all is well…", 5_400), Some(older));
        assert_eq!(of("complete", "all is well…", 7_400), Some(newer));
        assert_eq!(of("complete", "something else", 5_400), Some(newer));
        assert_eq!(of("working", "all is well", 5_400), Some(newer));
        assert_eq!(owner(&both[1..], &report("complete", "whatever", 9)), Some(older));
        assert_eq!(owner(&[], &report("complete", "whatever", 9)), None);
    }

    #[tokio::test]
    async fn what_a_report_may_be_of_is_found_without_walking_the_history() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") };
        let store = Store::open(&options).await.unwrap();
        let plan = query_plan(&store.read, working_at!()).await;
        let searches: Vec<&String> = plan.iter().filter(|line| line.contains("journal")).collect();
        let expected = [
            "SEARCH journal USING INDEX journal_open (agent_id=?)",
            "SEARCH journal USING INDEX journal_ended_tasks (agent_id=? AND ended_at>?)",
        ];
        assert_eq!(searches, expected);
    }
}
