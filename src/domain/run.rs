//! Runs: one process inside a workspace each, its states, and what an absent workspace means for it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::agent::AgentStatus;
use super::clock::Clock;
use super::id::{AgentId, RunId};
use super::usage::Spender;
use super::word_enum::word_enum;

/// Of each stream this much is kept; the rest is counted.
pub const KEPT_OUTPUT: u64 = 10 << 20;

/// How long beyond its own time a run may be out of sight before it is given up.
const OUT_OF_SIGHT: Duration = Duration::from_secs(10 * 60);

/// A run and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub agent_id: AgentId,
    /// The number of the workspace's start build in which it was started.
    pub generation: i64,
    /// What it is for, for people.
    pub purpose: String,
    /// Without secrets: those go by input and variables, which are never stored.
    pub argv: Vec<String>,
    /// The container inside the workspace that it runs in.
    pub container: Option<String>,
    pub timeout: Duration,
    pub state: RunState,
    /// Bytes seen of each stream; of these the first [`KEPT_OUTPUT`] are kept.
    pub stdout: u64,
    pub stderr: u64,
    pub cancel: Option<RunCancel>,
    /// Of a run that is an engine.
    pub engine: Option<EngineRun>,
    pub created_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    /// The workspace has been told to forget it.
    pub is_cleared: bool,
}

/// A request to end a run; the first one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCancel {
    pub at: DateTime<Utc>,
    pub cause: CancelCause,
}

word_enum! {
    CancelCause {
        /// A caller or the owner of the run.
        Request = "request",
        /// The run has crossed the budget.
        Budget = "budget",
    }
}

/// How the output of an engine run is read, and whose budget the run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineRun {
    /// The engine's word.
    pub engine: String,
    pub output: EngineOutput,
    pub spender: Spender,
    /// The model that it was called with.
    pub model: Option<String>,
    /// The conversation, where its id is known before the engine begins.
    pub conversation: Option<String>,
}

word_enum! {
    /// What an engine prints.
    EngineOutput {
        /// Text for people, where the CLI can print that.
        Words = "words",
        /// One event per line.
        Events = "events",
        /// The same, and each part of a message as it comes: too much for output that is stored.
        Parts = "parts",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// It is to be started; whether that happened must be looked up.
    Accepted,
    Running,
    Ended(RunEnd),
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
    /// It was stopped because it crossed the budget.
    OverBudget,
    /// It cannot be started.
    Failed {
        reason: String,
    },
    /// The server stopped before it was started, and now it never will be: whoever knows its input may begin anew.
    Unstarted,
    /// Nobody can tell how it ended, or whether it began; it is not run again.
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

/// A piece of a stream, by where it begins.
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
    /// What is kept of the stream so far; more may come until the run has ended.
    pub kept: u64,
    /// What the run has written; more than is kept when it wrote too much.
    pub written: u64,
    /// When it was removed because it was old: nothing is kept since.
    pub removed_at: Option<DateTime<Utc>>,
}

/// Where a run's workspace is, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// Nothing was seen yet.
    Unseen,
    Deleted,
    /// A start of it failed: nothing of it runs. After a failed stop its machine is still there.
    Broken,
    Seen {
        status: AgentStatus,
        /// Whom to ask inside the workspace; none while it has no agent.
        workspace_agent: Option<Uuid>,
    },
}

/// What to do about a run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Ask(Uuid),
    Wait,
    End(RunEnd),
}

impl Run {
    pub fn is_ended(&self) -> bool {
        matches!(self.state, RunState::Ended(_))
    }

    /// It has ended without ever having been a process.
    pub fn never_began(&self) -> bool {
        matches!(&self.state, RunState::Ended(end) if end.never_began())
    }

    /// Nobody saw how it ended, or it never began.
    pub fn is_without_trace(&self) -> bool {
        match &self.state {
            RunState::Accepted | RunState::Running => false,
            RunState::Ended(end) => match end {
                RunEnd::Exited { .. } | RunEnd::Signaled { .. } => false,
                RunEnd::TimedOut | RunEnd::Canceled | RunEnd::OverBudget => false,
                RunEnd::Failed { .. } | RunEnd::Unstarted | RunEnd::Lost { .. } => true,
            },
        }
    }

    pub fn written(&self, stream: RunStream) -> u64 {
        match stream {
            RunStream::Stdout => self.stdout,
            RunStream::Stderr => self.stderr,
        }
    }

    /// A stopped, failed or deleted workspace took its processes with it. One that is only out of reach may come back,
    /// but not for ever: its own clock has ended the run long before we give up.
    pub fn judge(&self, place: Whereabouts, clock: &Clock) -> Verdict {
        match place {
            Whereabouts::Deleted => Verdict::End(lost("its workspace was deleted")),
            Whereabouts::Seen { status: AgentStatus::Stopped, .. } => {
                Verdict::End(lost("its workspace was stopped"))
            }
            Whereabouts::Seen { workspace_agent: Some(agent), .. } => Verdict::Ask(agent),
            Whereabouts::Broken => Verdict::End(lost("its workspace failed")),
            Whereabouts::Unseen | Whereabouts::Seen { workspace_agent: None, .. } => {
                if self.is_overdue(clock) {
                    Verdict::End(lost("its workspace stayed unreachable"))
                } else {
                    Verdict::Wait
                }
            }
        }
    }

    /// Whether it must have ended long ago, by the clock inside its workspace.
    pub fn is_overdue(&self, clock: &Clock) -> bool {
        let age = clock.since(self.created_at).to_std().unwrap_or(Duration::ZERO);
        age > self.timeout + OUT_OF_SIGHT
    }
}

impl RunEnd {
    /// It came without there ever having been a process.
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
            Self::OverBudget => {
                f.write_str("was stopped: this agent's budget is used up; raise it to continue")
            }
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
            ended_at: None,
            is_cleared: false,
        }
    }

    #[test]
    fn only_a_workspace_that_is_gone_or_stayed_away_ends_its_runs() {
        let run = run();
        let (now, agent) = (run.created_at, Uuid::nil());
        let seen = |status, workspace_agent| Whereabouts::Seen { status, workspace_agent };
        let soon = |place| run.judge(place, &Clock::at(now));
        let late = |place| run.judge(place, &Clock::at(now + TimeDelta::minutes(12)));
        assert_eq!(soon(Whereabouts::Unseen), Verdict::Wait);
        assert_eq!(soon(Whereabouts::Deleted), Verdict::End(lost("its workspace was deleted")));
        assert_eq!(soon(seen(AgentStatus::Stopped, None)), Verdict::End(lost("its workspace was stopped")));
        assert_eq!(soon(seen(AgentStatus::Stopping, None)), Verdict::Wait);
        assert_eq!(soon(seen(AgentStatus::Failed, Some(agent))), Verdict::Ask(agent));
        assert_eq!(soon(seen(AgentStatus::Failed, None)), Verdict::Wait, "its stop failed");
        assert_eq!(soon(Whereabouts::Broken), Verdict::End(lost("its workspace failed")));
        assert_eq!(late(seen(AgentStatus::Idle, Some(agent))), Verdict::Ask(agent));
        assert_eq!(
            late(seen(AgentStatus::Starting, None)),
            Verdict::End(lost("its workspace stayed unreachable"))
        );
        assert_eq!(run.judge(Whereabouts::Unseen, &Clock::at(now - TimeDelta::days(1))), Verdict::Wait);
    }
}
