//! An agent's history with the details of its tasks, read at one moment.

use std::collections::HashMap;

use super::db::DbConnection;
use super::error::StoreError;
use super::{Store, journal, task_moves, task_rows};
use crate::domain::history::{HistoryEntry, HistoryKind};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::page::{Page, PageRequest};
use crate::domain::task::{TaskMove, Verified};

/// One page of a history with the details of its tasks.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    pub page: Page<HistoryEntry>,
    /// The past states of each task, oldest first.
    pub moves: HashMap<TaskId, Vec<TaskMove>>,
    /// The verified facts about each task's work, where there are any.
    pub verified: HashMap<TaskId, Verified>,
}

impl Store {
    /// Reads all in one transaction, so that a task's state is that of its last move.
    pub async fn history_page(
        &self,
        agent: AgentId,
        kind: Option<HistoryKind>,
        page: PageRequest,
    ) -> Result<HistoryPage, StoreError> {
        let mut read = self.read.begin().await?;
        let page = journal::page_of(&mut read, agent, kind, page).await?;
        let tasks = page.items.iter().filter(|entry| entry.kind() == HistoryKind::Task);
        let ids: Vec<TaskId> = tasks.filter_map(HistoryEntry::task_id).collect();
        let moves = task_moves::moves_of(&mut read, &ids).await?;
        let verified = verified(&mut read, &ids).await?;
        Ok(HistoryPage { page, moves, verified })
    }
}

async fn verified(
    connection: &mut DbConnection,
    ids: &[TaskId],
) -> Result<HashMap<TaskId, Verified>, sqlx::Error> {
    let mut found = HashMap::new();
    for id in ids {
        let row = sqlx::query(
            "SELECT verified, verified_commit, verified_is_new, verified_is_pushed, verified_is_clean \
             FROM task_deliveries WHERE task_id = $1",
        );
        let row = row.bind(id.0).fetch_optional(&mut *connection).await?;
        let seen = row.as_ref().map(task_rows::verified_of).transpose()?.flatten();
        found.extend(seen.map(|seen| (*id, seen)));
    }
    Ok(found)
}
