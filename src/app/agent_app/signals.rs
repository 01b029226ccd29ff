//! Terminates an agent's engine without its runner, by a command in the workspace.

use crate::app::Fleet;
use crate::app::snapshot::AgentState;
use crate::coder::exec::{Command, END_FUNCTIONS};
use crate::domain::limits::Limits;

/// Sends SIGTERM, then SIGKILL, and resumes a stopped runner.
const SCRIPT: &str = include_str!("end.sh");

impl Fleet {
    /// Whether no process of the engine is left; false also if that is unknown.
    pub(in crate::app) async fn engine_terminate(&self, state: &AgentState) -> bool {
        let Some(agent) = state.live.workspace_agent else { return false };
        let workspace_exec = self.workspace_exec(agent, &state.agent.project);
        // Without a response in time the cancel goes on to its next, harder step.
        let Limits { signal_command: limit, signal_term, signal_kill, .. } = *self.limits();
        let script = format!("{END_FUNCTIONS}{SCRIPT}");
        let [term, kill] = [signal_term, signal_kill].map(|limit| (limit.as_millis() / 100).to_string());
        let command = Command { timeout: limit, ..Command::new(["sh", "-c", &script, "end", &term, &kill]) };
        match workspace_exec.exec(command, limit).await {
            Ok(output) => output.stdout.trim_ascii() == b"gone",
            Err(error) => {
                tracing::debug!(
                    agent.name = %state.agent.name, %error,
                    "the agent's engine could not be signaled"
                );
                false
            }
        }
    }
}
