//! Converts app statuses to journal entries.

use crate::coder::wire::AppStatus;
use crate::domain::history::{HistoryLine, Report};
use crate::domain::id::AgentId;
use crate::domain::task::TaskSource;
use crate::domain::words::AppState;

/// A journal entry; the journal finds its task.
pub(super) fn report_of(agent: AgentId, status: &AppStatus, generation: i64) -> Report {
    Report {
        id: status.id,
        line: HistoryLine {
            agent_id: agent,
            message: status.message.clone(),
            source: TaskSource::Agent,
            generation,
            created_at: status.created_at,
        },
        state: AppState::from_word(&status.state),
        task_id: None,
        uri: Some(status.uri.clone()).filter(|uri| !uri.is_empty()),
        needs_answer: status.needs_user_attention,
    }
}
