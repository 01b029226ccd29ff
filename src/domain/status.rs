//! Derives an agent's status from Coder's state and our own records.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use uuid::Uuid;

use super::agent::{AgentStatus, Attention};
use super::clock::Clock;
use super::text::{cut, one_line};
use super::words::{AppState, BuildStatus, Connection, Lifecycle};

/// A status is explained in a few words; the task has the details.
const MAX_REASON: usize = 400;

/// All inputs of the status.
#[derive(Debug, Clone)]
pub struct Observation {
    pub build: Option<BuildSeen>,
    pub agents: Vec<WorkspaceAgentSeen>,
    /// The newest app status of the workspace, from any build.
    pub report: Option<ReportSeen>,
    pub task: TaskSeen,
    /// When its app last reported that it waits for input; an older report of work is outdated.
    pub resting_at: Option<DateTime<Utc>>,
    /// The project needs no workspace agent at all.
    pub agentless: bool,
    pub stuck_after: TimeDelta,
    pub clock: Clock,
}

#[derive(Debug, Clone)]
pub struct BuildSeen {
    pub status: BuildStatus,
    /// When the build's job ended, or when it was created.
    pub since: DateTime<Utc>,
    /// Coder's own error message.
    pub error: Option<String>,
}

#[derive(Debug, Clone)]
pub struct WorkspaceAgentSeen {
    pub id: Uuid,
    pub connection: Connection,
    pub lifecycle: Lifecycle,
    pub disconnected_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone)]
pub struct ReportSeen {
    /// The workspace agent that reported; an agent of an older build is irrelevant.
    pub agent_id: Uuid,
    pub state: AppState,
    pub message: String,
    /// It needs input from a person before it continues.
    pub needs_answer: bool,
    pub at: DateTime<Utc>,
}

/// The state of our own tasks of this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskSeen {
    None,
    /// A task is about to be delivered, and nothing has prevented that since then.
    Pending {
        since: DateTime<Utc>,
    },
    /// Delivered and not ended; the time of its last sign of life.
    Working {
        last_sign: DateTime<Utc>,
    },
    /// No task, but it reported that it is working.
    Reported {
        work: String,
        at: DateTime<Utc>,
    },
    /// It has a task, and its app has not responded since then.
    Silent {
        since: DateTime<Utc>,
    },
    /// A usage limit keeps it from continuing.
    Parked {
        until: DateTime<Utc>,
    },
    /// The last task ended with a question.
    Asking {
        question: Option<String>,
    },
    /// The last task failed.
    Failed {
        outcome: Option<String>,
    },
}

impl TaskSeen {
    /// Whether a task is queued or in progress.
    fn is_open(&self) -> bool {
        match self {
            Self::Pending { .. } | Self::Working { .. } | Self::Silent { .. } | Self::Parked { .. } => true,
            Self::None | Self::Reported { .. } | Self::Asking { .. } | Self::Failed { .. } => false,
        }
    }
}

/// A status with its reason; an unknown status is reported as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub status: AgentStatus,
    pub reason: String,
    pub attention: Attention,
}

impl Verdict {
    pub fn new(status: AgentStatus, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), attention: Attention::None }
    }

    fn attention(self, attention: Attention) -> Self {
        Self { attention, ..self }
    }

    /// Adds to a failed agent's reason what happens to its tasks.
    pub fn note_task(&mut self, task: &TaskSeen) {
        let cannot_go_on = matches!(self.status, AgentStatus::Failed | AgentStatus::Canceled);
        let note = match task {
            _ if !cannot_go_on => return,
            TaskSeen::Pending { .. } | TaskSeen::Parked { .. } => "; a task is waiting for it",
            TaskSeen::Working { .. } | TaskSeen::Silent { .. } => "; its task has not ended",
            TaskSeen::None
            | TaskSeen::Reported { .. }
            | TaskSeen::Asking { .. }
            | TaskSeen::Failed { .. } => return,
        };
        self.reason.push_str(note);
    }
}

/// Whether the workspace agents of a succeeded build can work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    Well,
    /// Unreachable for now; the next look decides.
    Doubtful,
    /// Requires another start.
    Broken,
}

pub fn fitness(seen: &Observation) -> Fitness {
    let Verdict { status, attention, .. } = judge(seen);
    let is_away = seen.agents.iter().any(|agent| agent.connection == Connection::Disconnected);
    match (status, attention) {
        (AgentStatus::Failed, _) => Fitness::Broken,
        (_, Attention::Unreachable) if is_away => Fitness::Doubtful,
        // Its workspace runs and its app has been silent for long.
        (_, Attention::Unreachable) => Fitness::Broken,
        (_, _) => Fitness::Well,
    }
}

/// Total over every combination of Coder's states: exactly one status, without panics.
pub fn judge(seen: &Observation) -> Verdict {
    let verdict = judge_build(seen);
    // It continues only after another start.
    match verdict.status {
        AgentStatus::Failed => verdict.attention(Attention::Unreachable),
        AgentStatus::Canceled if seen.task.is_open() => verdict.attention(Attention::Unreachable),
        AgentStatus::Canceled
        | AgentStatus::Pending
        | AgentStatus::Starting
        | AgentStatus::Busy
        | AgentStatus::Idle
        | AgentStatus::Stopping
        | AgentStatus::Stopped
        | AgentStatus::Canceling
        | AgentStatus::Deleting
        | AgentStatus::Deleted => verdict,
    }
}

fn judge_build(seen: &Observation) -> Verdict {
    let Some(build) = &seen.build else {
        return Verdict::new(AgentStatus::Failed, "Coder shows no build");
    };
    match &build.status {
        BuildStatus::Running => judge_running(seen, build),
        BuildStatus::Pending => Verdict::new(AgentStatus::Pending, "the build is waiting for a provisioner"),
        BuildStatus::Starting => Verdict::new(AgentStatus::Starting, "the workspace is being built"),
        BuildStatus::Stopping => Verdict::new(AgentStatus::Stopping, "the workspace is stopping"),
        BuildStatus::Stopped => Verdict::new(AgentStatus::Stopped, "the workspace is stopped"),
        BuildStatus::Failed => Verdict::new(AgentStatus::Failed, failure_of(build)),
        BuildStatus::Canceling => Verdict::new(AgentStatus::Canceling, "the build is being canceled"),
        BuildStatus::Canceled => Verdict::new(AgentStatus::Canceled, "the build was canceled"),
        BuildStatus::Deleting => Verdict::new(AgentStatus::Deleting, "the workspace is being deleted"),
        BuildStatus::Deleted => Verdict::new(AgentStatus::Deleted, "the workspace is gone"),
        BuildStatus::Unknown(word) => {
            Verdict::new(AgentStatus::Failed, format!("Coder reports the unknown build status '{word}'"))
        }
    }
}

/// The newest report, if it comes from an agent of the current build.
pub fn current_report(seen: &Observation) -> Option<&ReportSeen> {
    seen.report.as_ref().filter(|report| seen.agents.iter().any(|agent| agent.id == report.agent_id))
}

fn failure_of(build: &BuildSeen) -> String {
    match &build.error {
        Some(error) => format!("the build failed: {error}"),
        None => "the build failed".to_owned(),
    }
}

/// Health of one workspace agent; the order is the precedence among several.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Failed(String),
    Stopping,
    Starting(&'static str),
    Ready { reachable: bool },
}

fn judge_running(seen: &Observation, build: &BuildSeen) -> Verdict {
    let worst = seen.agents.iter().map(|agent| health_of(agent, build, &seen.clock)).min();
    match worst {
        None if seen.agentless => work_of(seen, true),
        None if seen.clock.since(build.since) > seen.clock.limits().connect => {
            Verdict::new(AgentStatus::Failed, "the workspace has no agent 180 s after its build")
        }
        None => Verdict::new(AgentStatus::Starting, "the workspace has no agent yet"),
        Some(Health::Failed(reason)) => Verdict::new(AgentStatus::Failed, reason),
        Some(Health::Stopping) => Verdict::new(AgentStatus::Stopping, "the workspace agent is shutting down"),
        Some(Health::Starting(reason)) => Verdict::new(AgentStatus::Starting, reason),
        Some(Health::Ready { reachable }) => work_of(seen, reachable),
    }
}

fn health_of(agent: &WorkspaceAgentSeen, build: &BuildSeen, clock: &Clock) -> Health {
    match &agent.connection {
        Connection::Connecting if clock.since(build.since) > clock.limits().connect => {
            Health::Failed("the workspace agent has not connected 180 s after the build".into())
        }
        Connection::Connecting => Health::Starting("the workspace agent has not connected yet"),
        Connection::Timeout => Health::Failed("the workspace agent did not connect in time".into()),
        Connection::Disconnected if is_long(agent.disconnected_at, clock) => {
            Health::Failed("the workspace agent is disconnected".into())
        }
        Connection::Disconnected => startup_of(&agent.lifecycle, false),
        Connection::Connected => startup_of(&agent.lifecycle, true),
        Connection::Unknown(word) => {
            Health::Failed(format!("the workspace agent reports the unknown status '{word}'"))
        }
    }
}

/// A disconnection without a time counts as long, since its beginning is unknown.
fn is_long(disconnected_at: Option<DateTime<Utc>>, clock: &Clock) -> bool {
    disconnected_at.is_none_or(|at| clock.since(at) >= clock.limits().disconnected)
}

fn startup_of(lifecycle: &Lifecycle, reachable: bool) -> Health {
    match lifecycle {
        Lifecycle::Created => Health::Starting("the workspace agent has connected"),
        Lifecycle::Starting => Health::Starting("the startup script is running"),
        Lifecycle::Ready => Health::Ready { reachable },
        Lifecycle::StartTimeout => Health::Failed("the startup script did not end in time".into()),
        Lifecycle::StartError => Health::Failed("the startup script exited with an error".into()),
        Lifecycle::ShuttingDown | Lifecycle::ShutdownTimeout | Lifecycle::ShutdownError | Lifecycle::Off => {
            Health::Stopping
        }
        Lifecycle::Unknown(word) => {
            Health::Failed(format!("the workspace agent reports the unknown lifecycle '{word}'"))
        }
    }
}

/// Busy or idle, for a running workspace.
fn work_of(seen: &Observation, reachable: bool) -> Verdict {
    let report = current_report(seen);
    let report_at = report.map(|report| report.at);
    let verdict = match &seen.task {
        TaskSeen::Working { last_sign } => busy(seen, working(report), report_at.max(Some(*last_sign))),
        TaskSeen::Pending { since } => pending(seen, report, *since),
        TaskSeen::Silent { since } => {
            Verdict::new(AgentStatus::Busy, silence(*since)).attention(Attention::Unreachable)
        }
        TaskSeen::Parked { until } => {
            Verdict::new(AgentStatus::Busy, parking(*until)).attention(Attention::Parked)
        }
        TaskSeen::Reported { work, at } if seen.resting_at.is_none_or(|rest| rest < *at) => {
            busy(seen, cut(&one_line(work), MAX_REASON), report_at.max(Some(*at)))
        }
        TaskSeen::Asking { .. } | TaskSeen::Failed { .. } | TaskSeen::Reported { .. } | TaskSeen::None
            if report.is_some_and(|report| is_working(seen, report)) =>
        {
            busy(seen, working(report), report_at)
        }
        TaskSeen::Asking { question } => {
            Verdict::new(AgentStatus::Idle, first_of(question.as_deref(), report, "waiting for an answer"))
                .attention(Attention::NeedsInput)
        }
        TaskSeen::Failed { outcome } => {
            Verdict::new(AgentStatus::Idle, first_of(outcome.as_deref(), report, "the last task failed"))
                .attention(Attention::FailedTask)
        }
        TaskSeen::Reported { .. } | TaskSeen::None => at_rest(report),
    };
    if reachable { verdict } else { verdict.attention(Attention::Unreachable) }
}

/// A report of work is valid until the app itself reports that it waits.
fn is_working(seen: &Observation, report: &ReportSeen) -> bool {
    report.state == AppState::Working && seen.resting_at.is_none_or(|at| at < report.at)
}

fn at_rest(report: Option<&ReportSeen>) -> Verdict {
    match report.map(|report| &report.state) {
        Some(AppState::Failure) => {
            Verdict::new(AgentStatus::Idle, report_text(report, "the last task failed"))
                .attention(Attention::FailedTask)
        }
        Some(AppState::Complete) => {
            Verdict::new(AgentStatus::Idle, report_text(report, "the last task is complete"))
        }
        Some(AppState::Unknown(word)) => {
            Verdict::new(AgentStatus::Idle, format!("the agent reports the unknown state '{word}'"))
        }
        Some(AppState::Working | AppState::Idle) | None => {
            Verdict::new(AgentStatus::Idle, "ready for a task")
        }
    }
}

fn silence(since: DateTime<Utc>) -> String {
    format!("the agent's app has not responded since {}", moment(since))
}

fn parking(until: DateTime<Utc>) -> String {
    format!("paused by a usage limit until {}", moment(until))
}

/// Text that is stable between looks, so that it causes no change.
fn moment(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The task's own outcome takes precedence over a report that may be about another task.
fn first_of(outcome: Option<&str>, report: Option<&ReportSeen>, otherwise: &str) -> String {
    let outcome = outcome.map(one_line).filter(|text| !text.is_empty());
    outcome.map_or_else(|| report_text(report, otherwise), |text| cut(&text, MAX_REASON))
}

fn working(report: Option<&ReportSeen>) -> String {
    report_text(report, "working on a task")
}

fn busy(seen: &Observation, reason: String, last_sign: Option<DateTime<Utc>>) -> Verdict {
    let verdict = Verdict::new(AgentStatus::Busy, reason);
    match last_sign {
        Some(at) if seen.clock.since(at) > seen.stuck_after => {
            let minutes = seen.clock.since(at).num_minutes();
            Verdict { reason: format!("no activity for {minutes} min"), ..verdict }
                .attention(Attention::Stuck)
        }
        Some(_) | None => verdict,
    }
}

/// The agent may be kept from its task by work outside of the fleet.
fn pending(seen: &Observation, report: Option<&ReportSeen>, since: DateTime<Utc>) -> Verdict {
    let started = seen.build.as_ref().map(|build| build.since);
    let free_since =
        [report.map(|report| report.at), started].into_iter().flatten().fold(since, DateTime::max);
    let waited = seen.clock.since(free_since);
    if waited <= seen.stuck_after {
        return Verdict::new(AgentStatus::Busy, "a task is being delivered to the agent");
    }
    let reason = format!("a task has not been delivered to the agent for {} min", waited.num_minutes());
    Verdict::new(AgentStatus::Busy, reason).attention(Attention::Stuck)
}

fn report_text(report: Option<&ReportSeen>, otherwise: &str) -> String {
    report.map(|report| report.message.trim()).filter(|m| !m.is_empty()).unwrap_or(otherwise).to_owned()
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
