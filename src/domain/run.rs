//! Runs: their states, and the effect of a missing workspace. A run is one process in a workspace.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::agent::AgentStatus;
use super::budget::RAISE_BUDGET;
use super::clock::Clock;
use super::engine_word::EngineWord;
use super::id::{AgentId, RunId};
use super::usage::{Figures, Spender};
use super::word_enum::word_enum;

/// The stored length of each stream; further bytes are only counted.
pub const KEPT_OUTPUT: u64 = 10 << 20;

/// How long after its time limit an unreachable run is declared lost.
const OUT_OF_SIGHT: Duration = Duration::from_secs(10 * 60);

/// A run and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub agent_id: AgentId,
    /// The number of the start build in which the run was started.
    pub generation: i64,
    /// The purpose, for messages.
    pub purpose: String,
    /// Without secrets, which go through input and variables and are never stored.
    pub argv: Vec<String>,
    /// The container in the workspace, if any.
    pub container: Option<String>,
    pub timeout: Duration,
    pub state: RunState,
    /// Bytes written to each stream, of which the first [`KEPT_OUTPUT`] are stored.
    pub stdout: u64,
    pub stderr: u64,
    pub cancel: Option<RunCancel>,
    /// Set for an engine run.
    pub engine: Option<EngineRun>,
    pub created_at: DateTime<Utc>,
    /// Its files in the workspace are removed.
    pub is_cleared: bool,
}

/// A request to end a run; the first request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCancel {
    pub at: DateTime<Utc>,
    pub cause: CancelCause,
}

word_enum! {
    CancelCause {
        /// Requested by a caller or the owner.
        Request = "request",
        /// The run exceeded the budget.
        Budget = "budget",
    }
}

/// The format of an engine's output, and the budget that the run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineRun {
    pub engine: EngineWord,
    pub output: EngineOutput,
    pub spender: Spender,
    pub model: Option<String>,
    /// The id of the conversation, if known before the run.
    pub conversation: Option<String>,
    /// The usage of the conversation before the run, as the fleet counted it.
    pub before: Figures,
}

word_enum! {
    /// The output format of an engine.
    EngineOutput {
        /// Plain text, if the CLI supports it.
        Text = "words",
        /// One event per line.
        Events = "events",
        /// Like events, with each part of a message as it is written: too long for stored output.
        Parts = "parts",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Recorded before the start; the success of the start must be looked up.
    Accepted,
    Running,
    Ended {
        end: RunEnd,
        at: DateTime<Utc>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    TimedOut,
    Canceled,
    /// Ended because it exceeded the budget.
    OverBudget,
    /// The start failed.
    Failed {
        reason: String,
    },
    /// The server stopped before the start, and the run will not start any more: its owner may create another run.
    Unstarted,
    /// Neither its start nor its end is known; it is not repeated.
    Lost {
        reason: String,
    },
}

word_enum! {
    /// A run's two streams.
    RunStream {
        Stdout = "stdout",
        Stderr = "stderr",
    }
}

/// A part of a stream at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChunk {
    pub stream: RunStream,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// A page of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Stored bytes of the stream so far.
    pub kept: u64,
    /// Bytes written; more than `kept` above the limit.
    pub written: u64,
    /// When the output was removed because of its age.
    pub removed_at: Option<DateTime<Utc>>,
}

/// The last observed state of a run's workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceSeen {
    /// Not observed yet.
    Unseen,
    Deleted,
    /// Its start failed, so no process of it runs. After a failed stop its machine still exists.
    Broken,
    Seen {
        status: AgentStatus,
        /// The workspace agent to connect to, if there is one.
        workspace_agent: Option<Uuid>,
    },
}

/// The next step for a run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStep {
    Ask(Uuid),
    Wait,
    End(RunEnd),
}

impl Run {
    pub fn is_ended(&self) -> bool {
        self.state.end().is_some()
    }

    /// It ended before its process started.
    pub fn never_began(&self) -> bool {
        self.state.end().is_some_and(RunEnd::never_began)
    }

    /// Its result is unknown, or it never started.
    pub fn is_without_trace(&self) -> bool {
        self.state.end().is_some_and(|end| match end {
            RunEnd::Exited { .. } | RunEnd::Signaled { .. } => false,
            RunEnd::TimedOut | RunEnd::Canceled | RunEnd::OverBudget => false,
            RunEnd::Failed { .. } | RunEnd::Unstarted | RunEnd::Lost { .. } => true,
        })
    }

    pub fn written(&self, stream: RunStream) -> u64 {
        match stream {
            RunStream::Stdout => self.stdout,
            RunStream::Stderr => self.stderr,
        }
    }

    /// A stopped, failed or deleted workspace has ended its processes. An unreachable workspace may return, but only
    /// within the run's own time limit.
    pub fn judge(&self, place: WorkspaceSeen, clock: &Clock) -> RunStep {
        match place {
            WorkspaceSeen::Deleted => RunStep::End(lost("its workspace was deleted")),
            WorkspaceSeen::Seen { status: AgentStatus::Stopped, .. } => {
                RunStep::End(lost("its workspace was stopped"))
            }
            WorkspaceSeen::Seen { workspace_agent: Some(agent), .. } => RunStep::Ask(agent),
            WorkspaceSeen::Broken => RunStep::End(lost("its workspace failed")),
            WorkspaceSeen::Unseen | WorkspaceSeen::Seen { workspace_agent: None, .. } => {
                if self.is_overdue(clock) {
                    RunStep::End(lost("its workspace stayed unreachable"))
                } else {
                    RunStep::Wait
                }
            }
        }
    }

    /// Whether the time limit inside the workspace must have ended it long ago.
    pub fn is_overdue(&self, clock: &Clock) -> bool {
        let age = clock.since(self.created_at).to_std().unwrap_or(Duration::ZERO);
        age > self.timeout + OUT_OF_SIGHT
    }
}

impl RunState {
    pub fn end(&self) -> Option<&RunEnd> {
        match self {
            Self::Accepted | Self::Running => None,
            Self::Ended { end, .. } => Some(end),
        }
    }
}

impl RunEnd {
    /// The run ended before its process started.
    pub fn never_began(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Unstarted)
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with {code}"),
            Self::Signaled { signal } => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("ran out of time"),
            Self::Canceled => f.write_str("was canceled"),
            Self::OverBudget => write!(f, "was stopped: the budget is used up; {RAISE_BUDGET}"),
            Self::Failed { reason } => write!(f, "did not start: {reason}"),
            Self::Unstarted => f.write_str("did not start: the server stopped first"),
            Self::Lost { reason } => write!(f, "was lost: {reason}"),
        }
    }
}

fn lost(reason: &str) -> RunEnd {
    RunEnd::Lost { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn run() -> Run {
        Run {
            id: RunId::fresh(),
            agent_id: AgentId::fresh(),
            generation: 1,
            purpose: "test".into(),
            argv: vec!["true".into()],
            container: None,
            timeout: Duration::from_secs(60),
            state: RunState::Running,
            stdout: 0,
            stderr: 0,
            cancel: None,
            engine: None,
            created_at: Utc::now(),
            is_cleared: false,
        }
    }

    #[test]
    fn only_a_workspace_that_is_gone_or_stayed_away_ends_its_runs() {
        let run = run();
        let (now, agent) = (run.created_at, Uuid::nil());
        let seen = |status, workspace_agent| WorkspaceSeen::Seen { status, workspace_agent };
        let soon = |place| run.judge(place, &Clock::at(now));
        let late = |place| run.judge(place, &Clock::at(now + TimeDelta::minutes(12)));
        assert_eq!(soon(WorkspaceSeen::Unseen), RunStep::Wait);
        assert_eq!(soon(WorkspaceSeen::Deleted), RunStep::End(lost("its workspace was deleted")));
        assert_eq!(soon(seen(AgentStatus::Stopped, None)), RunStep::End(lost("its workspace was stopped")));
        assert_eq!(soon(seen(AgentStatus::Stopping, None)), RunStep::Wait);
        assert_eq!(soon(seen(AgentStatus::Failed, Some(agent))), RunStep::Ask(agent));
        assert_eq!(soon(seen(AgentStatus::Failed, None)), RunStep::Wait, "its stop failed");
        assert_eq!(soon(WorkspaceSeen::Broken), RunStep::End(lost("its workspace failed")));
        assert_eq!(late(seen(AgentStatus::Idle, Some(agent))), RunStep::Ask(agent));
        assert_eq!(
            late(seen(AgentStatus::Starting, None)),
            RunStep::End(lost("its workspace stayed unreachable"))
        );
        assert_eq!(run.judge(WorkspaceSeen::Unseen, &Clock::at(now - TimeDelta::days(1))), RunStep::Wait);
    }
}
