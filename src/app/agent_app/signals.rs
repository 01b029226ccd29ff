//! Ends an agent's engine past its runner, by a command in the workspace.

use std::time::Duration;

use crate::app::Fleet;
use crate::app::snapshot::AgentState;
use crate::coder::exec::Command;

/// Asks, insists, and wakes a runner that was stopped.
const SCRIPT: &str = include_str!("end.sh");
const LIMIT: Duration = Duration::from_secs(8);
/// A workspace that does not answer is not waited for: the next step is harder.
const WAIT: Duration = Duration::from_secs(8);

impl Fleet {
    /// Did this leave nothing of the engine? False also when it cannot be told.
    pub(in crate::app) async fn engine_end(&self, state: &AgentState) -> bool {
        let Some(agent) = state.live.workspace_agent else { return false };
        let command = Command { timeout: LIMIT, ..Command::new(["sh", "-c", SCRIPT, "end"]) };
        match tokio::time::timeout(WAIT, self.coder().exec(agent, &command)).await {
            Ok(Ok(output)) => output.stdout.trim_ascii() == b"gone",
            Ok(Err(error)) => {
                tracing::debug!(agent.name = %state.agent.name, %error, "its engine could not be signaled");
                false
            }
            Err(_) => false,
        }
    }
}
