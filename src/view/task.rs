//! Tasks as callers see them: a summary, the results of a start and a cancel, and an agent's report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::agent::{listed, shortened_if_repeated};
use super::time;
use crate::app::tasks::{StatusReported, TaskCanceled, TaskStarted};
use crate::domain::task::{Task, Verified};
use crate::domain::text::cut;

/// The length of outcomes; the history has them whole.
const OUTCOME_CHARS: usize = 1_000;

/// A task in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TaskSummary {
    pub id: String,
    /// Text of the task; shortened in lists and where it repeats another text.
    pub message: String,
    /// queued, delivering, working, done, failed, canceled or timed_out
    pub state: String,
    /// The agent's claim about the result, shortened if long.
    pub outcome: Option<String>,
    /// agent, human or manager
    pub source: String,
    /// The verified part of the claim (commit, new_commit, pushed, clean); null if nothing was verified.
    pub verified: Option<serde_json::Value>,
    pub created_at: String,
}

/// Answer of start_agent_task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct StartedTask {
    pub task: TaskSummary,
    pub agent_status: String,
    pub agent_name: String,
    pub task_description: String,
    pub message: String,
    /// Pass it to wait_for_agents to see the progress of the task.
    pub cursor: String,
}

/// Answer of cancel_agent_task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct CanceledTask {
    /// Null if the agent's work was not a task of the fleet.
    pub task: Option<TaskSummary>,
    pub agent_status: String,
    pub agent_name: String,
    pub message: String,
    /// The step that ended the work: none, interrupt (the agent ended it, if necessary by killing its engine), signals
    /// (the fleet terminated the engine) or stop (the workspace was stopped).
    pub reached: String,
}

/// Answer of report_status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ReportedStatus {
    pub agent_name: String,
    pub agent_status: String,
    /// The task the report belongs to; null if there is no current task.
    pub task_id: Option<String>,
    pub message: String,
}

impl TaskSummary {
    pub(super) fn listed(task: &Task) -> Self {
        let entry = &task.entry;
        Self {
            message: listed(&entry.message),
            outcome: task.outcome().map(listed),
            ..Self::shortened_if_repeated(task, &[])
        }
    }

    /// Shortens the message, which the caller has sent or finds in the history.
    fn brief(task: &Task) -> Self {
        Self::shortened_if_repeated(task, &[&task.entry.message])
    }

    /// Shortens the message if the same answer contains it in one of `texts`.
    pub(super) fn shortened_if_repeated(task: &Task, texts: &[&str]) -> Self {
        let entry = &task.entry;
        Self {
            id: task.id.to_string(),
            message: shortened_if_repeated(&entry.message, texts),
            state: task.state().word().into(),
            outcome: task.outcome().map(|outcome| cut(outcome, OUTCOME_CHARS)),
            source: entry.source.word().into(),
            verified: task.stage.verified().map(verified),
            created_at: time(entry.created_at),
        }
    }
}

impl From<&TaskStarted> for StartedTask {
    fn from(started: &TaskStarted) -> Self {
        Self {
            task: TaskSummary::brief(&started.task),
            agent_status: started.status.word().into(),
            agent_name: started.name.to_string(),
            task_description: started.task.entry.message.clone(),
            message: started.message.clone(),
            cursor: started.cursor.to_string(),
        }
    }
}

impl From<&TaskCanceled> for CanceledTask {
    fn from(canceled: &TaskCanceled) -> Self {
        Self {
            task: canceled.task.as_ref().map(TaskSummary::brief),
            agent_status: canceled.status.word().into(),
            agent_name: canceled.name.to_string(),
            message: canceled.message.clone(),
            reached: canceled.reached.word().into(),
        }
    }
}

impl From<&StatusReported> for ReportedStatus {
    fn from(reported: &StatusReported) -> Self {
        Self {
            agent_name: reported.name.to_string(),
            agent_status: reported.status.word().into(),
            task_id: reported.task.as_ref().map(|task| task.id.to_string()),
            message: reported.message.clone(),
        }
    }
}

/// `pushed` is null without a commit.
pub(super) fn verified(seen: &Verified) -> serde_json::Value {
    json!({
        "commit": seen.commit,
        "new_commit": seen.is_new,
        "pushed": seen.commit.as_ref().map(|_| seen.is_pushed),
        "clean": seen.is_clean,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_pushed_where_there_is_no_commit() {
        let seen = |commit: Option<&str>| Verified {
            commit: commit.map(str::to_owned),
            is_new: Some(false),
            is_pushed: true,
            is_clean: true,
        };
        let shown = |commit: Option<&str>, pushed: Option<bool>| json!({ "commit": commit, "new_commit": false, "pushed": pushed, "clean": true });
        assert_eq!(verified(&seen(None)), shown(None, None));
        assert_eq!(verified(&seen(Some("1f2e"))), shown(Some("1f2e"), Some(true)));
    }
}
