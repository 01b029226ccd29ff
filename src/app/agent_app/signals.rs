//! Ends an agent's engine past its runner, by a command in the workspace.

use crate::app::Fleet;
use crate::app::snapshot::AgentState;
use crate::coder::exec::{Command, END_FUNCTIONS};

/// Asks, insists, and wakes a runner that was stopped.
const SCRIPT: &str = include_str!("end.sh");

impl Fleet {
    /// Did this leave nothing of the engine? False also when it cannot be told.
    pub(in crate::app) async fn engine_terminate(&self, state: &AgentState) -> bool {
        let Some(agent) = state.live.workspace_agent else { return false };
        let workspace_exec = self.workspace_exec(agent, &state.agent.project);
        // A workspace that does not answer in time is passed over: the next step is harder.
        let limit = self.limits().signal_command;
        let script = format!("{END_FUNCTIONS}{SCRIPT}");
        let command = Command { timeout: limit, ..Command::new(["sh", "-c", &script, "end"]) };
        match tokio::time::timeout(limit, workspace_exec.exec(command)).await {
            Ok(Ok(output)) => output.stdout.trim_ascii() == b"gone",
            Ok(Err(error)) => {
                tracing::debug!(
                    agent.name = %state.agent.name, %error,
                    "the agent's engine could not be signaled"
                );
                false
            }
            Err(_) => false,
        }
    }
}
