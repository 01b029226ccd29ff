//! The tool that shows an agent's tasks and reports.

use super::{About, Effect, Entry};
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::mcp::call::Call;
use crate::view::history::TaskHistory;
use crate::view::request::HistoryInput;

pub(super) fn tools() -> Vec<Entry> {
    let about = About {
        action: Action::AgentHistory,
        title: "Show an agent's history",
        description: "Shows the history of an agent, newest first, in pages: its tasks with state and \
            outcome, and its own reports. Also for deleted agents. Use it to find out what an agent did, or \
            why a task failed.",
        effect: Effect::Reads,
    };
    vec![Entry::new(about, show_agent_task_history)]
}

async fn show_agent_task_history(call: Call, input: HistoryInput) -> Result<TaskHistory, Error> {
    let history = call.fleet.agent_history(&call.caller, input.into_command()?).await?;
    Ok(TaskHistory::from(&history))
}
