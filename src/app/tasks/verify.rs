//! Inspects the repository after a task's run with the runner's commands, run from the server.

use chrono::{DateTime, Utc};

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::app::workspace_exec::WorkspaceExecError;
use crate::coder::exec::{Command, Exit, Inherited, Output};
use crate::domain::app::GitSeen;
use crate::domain::clock::Clock;
use crate::domain::environment::BASE;
use crate::domain::run::RunState;
use crate::domain::task::Task;
use crate::git::quiet::shell_function;
use crate::git::state::{GitState, STATUS, UNPUSHED};

/// Excludes variables that point git at another repository or program.
const INHERITED: [&str; 5] = ["PATH", "HOME", "USER", "XDG_*", BASE];
/// A base of hexadecimal digits only is the commit that the agent started from.
const BASE_ONLY: &str = "case $FLEET_BASE in *[!0-9a-f]*) FLEET_BASE= ;; esac";

/// The inspected result of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app) enum Evidence {
    Seen(GitSeen),
    /// There is no repository, or its state cannot be determined any more.
    Nothing,
    /// Not inspected yet.
    Later,
}

impl Fleet {
    /// The repository's state after a run. Safe to repeat: the next task waits until this one has ended.
    pub(in crate::app) async fn task_evidence(
        &self,
        state: &AgentState,
        task: &Task,
    ) -> Result<Evidence, Error> {
        let error = match self.repository_inspect(state).await {
            Ok(git_seen) => return Ok(git_seen.map_or(Evidence::Nothing, Evidence::Seen)),
            Err(error) => error,
        };
        tracing::debug!(agent.name = %state.agent.name, %error, "the work of a task could not be verified");
        Ok(match self.store().run_by_id(task.run()).await?.map(|run| run.state) {
            Some(RunState::Ended { at, .. }) if is_early(at, &self.clock()) => Evidence::Later,
            Some(RunState::Ended { .. } | RunState::Accepted | RunState::Running) | None => Evidence::Nothing,
        })
    }

    async fn repository_inspect(&self, state: &AgentState) -> Result<Option<GitSeen>, WorkspaceExecError> {
        let Some(agent) = state.live.workspace_agent else { return Ok(None) };
        let script = format!(
            "{}git_off; {BASE_ONLY}; git '{}' && printf '\\000' && git '{}' $FLEET_BASE; exit 0",
            shell_function(),
            STATUS.join("' '"),
            UNPUSHED.join("' '")
        );
        let argv = ["sh", "-c", script.as_str(), "look"];
        let timeout = self.limits().evidence_command;
        let command = Command { inherited: Inherited::Only(&INHERITED), timeout, ..Command::new(argv) };
        let workspace_exec = self.workspace_exec(agent, &state.agent.project);
        Ok(git_seen(&workspace_exec.exec(command, self.limits().evidence_answer).await?))
    }
}

/// Whether the repository of a run that ended then is inspected again.
fn is_early(ended_at: DateTime<Utc>, clock: &Clock) -> bool {
    clock.since(ended_at) < clock.limits().evidence
}

/// None unless both commands succeeded; before the first commit the second prints nothing.
fn git_seen(output: &Output) -> Option<GitSeen> {
    let text = String::from_utf8_lossy(&output.stdout);
    let (status, count) =
        text.split_once('\0').filter(|_| output.exit == Exit::Code(0) && !output.truncated)?;
    let GitState { head, dirty, .. } = GitState::of_status(status);
    let n_unpushed = match head {
        Some(_) => count.trim().parse().ok()?,
        None => 0,
    };
    Some(GitSeen { head, is_dirty: dirty, n_unpushed })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_clock_that_is_set_back_delays_no_end() {
        let ended = DateTime::UNIX_EPOCH;
        let mut clock = Clock::at(ended);
        clock.read(ended - TimeDelta::hours(1), TimeDelta::seconds(10));
        assert!(is_early(ended, &clock));
        clock.read(ended - TimeDelta::minutes(59), TimeDelta::minutes(1));
        assert!(!is_early(ended, &clock));
    }

    fn output(stdout: &'static str) -> Output {
        Output { exit: Exit::Code(0), stdout: stdout.into(), stderr: "".into(), truncated: false }
    }

    #[test]
    fn only_a_whole_answer_counts() {
        let known = GitSeen { head: Some("1f2e".to_owned()), is_dirty: true, n_unpushed: 3 };
        assert_eq!(git_seen(&output("# branch.oid 1f2e\n? notes\n\x003\n")), Some(known));
        let fresh = GitSeen { head: None, is_dirty: false, n_unpushed: 0 };
        assert_eq!(git_seen(&output("# branch.oid (initial)\n\0")), Some(fresh));
        assert_eq!(git_seen(&output("# branch.oid 1f2e\n\0")), None);
        assert_eq!((git_seen(&output("")), git_seen(&output("# branch.oid 1f2e\n"))), (None, None));
        let late = Output { exit: Exit::TimedOut, ..output("# branch.oid 1f2e\n\x003\n") };
        assert_eq!(git_seen(&late), None);
    }
}
