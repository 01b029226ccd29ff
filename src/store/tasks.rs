//! Tasks: the journal entries whose state moves, and which of them count now.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::Store;
use super::error::StoreError;
use super::journal::select_entries;
use super::row::micros;
use crate::domain::history::HistoryEntry;
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::TaskState;

/// The tasks of an agent that its status speaks of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatestTasks {
    /// The oldest that has not ended.
    pub open: Option<HistoryEntry>,
    /// The one that ended last.
    pub last: Option<HistoryEntry>,
}

/// Only tasks are ever open. Naming the kind as well would lead SQLite to an index over all tasks.
macro_rules! oldest_open {
    ($agent:literal) => {
        concat!(
            "SELECT id FROM journal WHERE agent_id = ",
            $agent,
            " AND ended_at IS NULL ORDER BY created_at, id LIMIT 1"
        )
    };
}

macro_rules! last_ended {
    ($agent:literal) => {
        concat!(
            "SELECT id FROM journal WHERE agent_id = ",
            $agent,
            " AND kind = 'task' AND ended_at IS NOT NULL ORDER BY ended_at DESC, created_at DESC, id DESC LIMIT 1"
        )
    };
}

/// The entry that such a query picks for each live agent.
macro_rules! of_each_live_agent {
    ($pick:expr) => {
        select_entries!(concat!("JOIN agents a ON j.id = (", $pick, ") WHERE a.deleted_at IS NULL"))
    };
}

impl Store {
    /// Moves a task to another state. False when the move is not legal: ended tasks never reopen.
    pub async fn task_move(
        &self,
        id: TaskId,
        to: TaskState,
        outcome: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let task: Option<HistoryEntry> =
            sqlx::query_as(select_entries!("WHERE j.id = $1 AND j.kind = 'task'"))
                .bind(id.0)
                .fetch_optional(&mut *tx)
                .await?;
        let state = task.ok_or(StoreError::Missing("task"))?.task_state();
        if !state.is_some_and(|state| state.may_become(to)) {
            return Ok(false);
        }
        sqlx::query(
            "UPDATE journal SET state = $1, outcome = COALESCE($2, outcome), ended_at = $3 WHERE id = $4",
        )
        .bind(to.word())
        .bind(outcome)
        .bind(to.is_ended().then(|| micros(at)))
        .bind(id.0)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(true)
    }

    pub async fn tasks_latest_of(&self, agent: AgentId) -> Result<LatestTasks, StoreError> {
        let mut read = self.read.begin().await?;
        let open = sqlx::query_as(select_entries!(concat!("WHERE j.id = (", oldest_open!("$1"), ")")));
        let open = open.bind(agent.0).fetch_optional(&mut *read).await?;
        let last = sqlx::query_as(select_entries!(concat!("WHERE j.id = (", last_ended!("$1"), ")")));
        let last = last.bind(agent.0).fetch_optional(&mut *read).await?;
        Ok(LatestTasks { open, last })
    }

    /// The same for every live agent that has a task, in two queries however many there are.
    pub async fn tasks_latest(&self) -> Result<Vec<(AgentId, LatestTasks)>, StoreError> {
        let mut read = self.read.begin().await?;
        let open: Vec<HistoryEntry> =
            sqlx::query_as(of_each_live_agent!(oldest_open!("a.id"))).fetch_all(&mut *read).await?;
        let last: Vec<HistoryEntry> =
            sqlx::query_as(of_each_live_agent!(last_ended!("a.id"))).fetch_all(&mut *read).await?;
        let mut latest: BTreeMap<AgentId, LatestTasks> = BTreeMap::new();
        for entry in open {
            let tasks = latest.entry(entry.agent_id).or_default();
            tasks.open = Some(entry);
        }
        for entry in last {
            let tasks = latest.entry(entry.agent_id).or_default();
            tasks.last = Some(entry);
        }
        Ok(latest.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::*;
    use crate::store::StoreOptions;

    /// The last column of a query plan is its sentence.
    async fn plan(store: &Store, sql: &'static str) -> String {
        let row = sqlx::query(sql).bind(AgentId::fresh().0).fetch_one(&store.read).await.unwrap();
        row.get(3)
    }

    #[tokio::test]
    async fn open_and_ended_tasks_are_found_without_walking_the_history() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") };
        let store = Store::open(&options).await.unwrap();
        let open = plan(&store, concat!("EXPLAIN QUERY PLAN ", oldest_open!("$1"))).await;
        assert_eq!(open, "SEARCH journal USING INDEX journal_open (agent_id=?)");
        let ended = plan(&store, concat!("EXPLAIN QUERY PLAN ", last_ended!("$1"))).await;
        assert_eq!(
            ended,
            "SEARCH journal USING COVERING INDEX journal_ended_tasks (agent_id=? AND ended_at>?)"
        );
    }
}
