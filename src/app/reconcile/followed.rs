//! Reports as lines of the journal.

use crate::coder::wire::AppStatus;
use crate::domain::history::{HistoryEntry, HistoryKind};
use crate::domain::id::AgentId;
use crate::domain::task::TaskSource;

/// A report as a line of the journal, which finds out the task it belongs to.
pub(super) fn entry_of(agent: AgentId, status: &AppStatus, generation: i64) -> HistoryEntry {
    HistoryEntry {
        id: status.id,
        agent_id: agent,
        kind: HistoryKind::Report,
        message: status.message.clone(),
        state: status.state.clone(),
        outcome: None,
        source: TaskSource::Agent,
        task_id: None,
        uri: Some(status.uri.clone()).filter(|uri| !uri.is_empty()),
        needs_user_attention: status.needs_user_attention,
        generation,
        created_at: status.created_at,
    }
}
