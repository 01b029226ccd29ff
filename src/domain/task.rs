//! Tasks: work assigned to an agent, and its record.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::clock::Clock;
use super::history::{HistoryEntry, HistoryLine, TaskEntry};
use super::id::{RunId, TaskId};
use super::question;
use super::role::RoleKind;
use super::status::TaskSeen;
pub use super::task_stage::{
    Channel, Delivery, EndState, Sending, TaskEnd, TaskProgress, TaskStage, TaskState, Verified, Work,
};
use super::word_enum::word_enum;
use super::words::AppState;

/// The message that continues an interrupted task in the session that has the task.
pub const CONTINUE_MESSAGE: &str = "You were interrupted by a restart of your workspace. Go on with the task where you stopped; \
                         do not repeat what is already done.";

word_enum! {
    /// The origin of the task; derived from the principal, never from an argument.
    TaskSource {
        Agent = "agent",
        Human = "human",
        Manager = "manager",
    }
}

word_enum! {
    /// How the agent gets the text.
    TaskOrigin {
        /// The prompt of the workspace: the agent takes it by itself.
        Spec = "spec",
        /// Delivered to the agent as a message.
        Given = "given",
        /// Executed by a separate process in the workspace, beside the agent.
        Run = "run",
    }
}

word_enum! {
    /// The agent's claim about the result.
    ClaimKind {
        Complete = "complete",
        Failure = "failure",
        Question = "question",
    }
}

word_enum! {
    /// The step that ended a canceled task.
    Escalation {
        None = "none",
        Interrupt = "interrupt",
        Signals = "signals",
        Stop = "stop",
    }
}

/// A task and its whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    /// Its history entry: text, source, generation.
    pub entry: HistoryLine,
    pub stage: TaskStage,
    pub work: TaskWork,
}

/// The part of the record that exists in every state, written before and after each outside effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskWork {
    pub origin: TaskOrigin,
    /// It interrupts the agent's work, including work outside the fleet's tasks.
    pub is_urgent: bool,
    /// Counted from 1; increased before a redelivery after a usage limit or a stop.
    pub attempt: i64,
    /// This attempt continues the engine's session, so the agent gets a short message instead of the whole text.
    pub is_continued: bool,
    pub timeout: Option<TimeDelta>,
    /// Working time, measured without the wall clock; after a restart of the server it may be slightly too short.
    pub worked: TimeDelta,
    /// The agent's last sign of life.
    pub last_sign: Option<DateTime<Utc>>,
    /// Since when the agent's app does not respond.
    pub silent_since: Option<DateTime<Utc>>,
    /// The task is parked until this time.
    pub parked_until: Option<DateTime<Utc>>,
    pub cancel: Option<Cancel>,
    pub reached: Escalation,
    pub claim: Option<Claim>,
    /// The commit before the work, if it was observed.
    pub head_before: Option<String>,
}

/// A request to end the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancel {
    pub at: DateTime<Utc>,
    pub cause: CancelCause,
    /// Whether the workspace may be stopped as the last resort.
    pub may_stop: bool,
}

/// The cause of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// A caller canceled it.
    Request,
    /// A later task interrupts it.
    Interrupt(TaskId),
}

/// The agent's claim about the result of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub kind: ClaimKind,
    pub text: String,
    pub at: DateTime<Utc>,
}

/// The tasks of an agent that determine its status.
#[derive(Debug, Clone, Copy, Default)]
pub struct SeenTasks<'a> {
    pub open: Option<&'a Task>,
    pub running: Option<&'a Task>,
    pub last: Option<&'a Task>,
    /// The agent's report since the last change of its tasks.
    pub report: Option<&'a UnassignedReport>,
}

/// An agent's report about itself while it had no task of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnassignedReport {
    pub state: AppState,
    /// The question, else the summary.
    pub text: String,
    pub is_question: bool,
    pub generation: i64,
    /// Increases with each report, independent of the wall clock.
    pub number: i64,
    pub at: DateTime<Utc>,
}

/// One change of a task's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMove {
    pub task: TaskId,
    pub state: TaskState,
    pub reason: String,
    pub generation: i64,
    pub at: DateTime<Utc>,
}

word_enum! {
    /// How to handle a new task for an agent that has a task.
    WhenBusy {
        Reject = "reject",
        Queue = "queue",
        Interrupt = "interrupt",
    }
}

impl Task {
    /// An accepted task, before any delivery.
    pub fn accepted(id: TaskId, entry: HistoryLine, work: TaskWork) -> Self {
        Self { id, entry, stage: TaskStage::Queued, work }
    }

    pub fn state(&self) -> TaskState {
        self.stage.state()
    }

    pub fn delivery(&self) -> Delivery {
        self.stage.work().delivery
    }

    /// Since when the agent has this attempt; none before its delivery.
    pub fn working_since(&self) -> Option<DateTime<Utc>> {
        self.stage.work().since
    }

    pub fn outcome(&self) -> Option<&str> {
        self.stage.end()?.outcome.as_deref()
    }

    pub fn needs_answer(&self) -> bool {
        self.stage.end().is_some_and(|end| end.needs_answer)
    }

    /// Its entry in the agent's history.
    pub fn history(&self) -> HistoryEntry {
        let progress = self.stage.progress();
        HistoryEntry::Task(TaskEntry { id: self.id, line: self.entry.clone(), progress })
    }

    /// The agent's question at the end: a reported question is used whole, of an answer only its end.
    fn question(&self) -> Option<String> {
        let is_reported = self.work.claim.as_ref().is_some_and(|claim| claim.kind == ClaimKind::Question);
        let outcome = self.outcome()?;
        Some(if is_reported { outcome.to_owned() } else { question::reason(outcome) })
    }

    /// The runner's key for this attempt.
    pub fn key(&self) -> String {
        match self.work.attempt {
            1 => self.id.to_string(),
            attempt => format!("{}.{attempt}", self.id),
        }
    }

    /// The run that executes this attempt in a workspace without an agent app. Its id is derived from the task, so
    /// that it begins once.
    pub fn run(&self) -> RunId {
        let n_before = u128::from(self.work.attempt.saturating_sub(1).unsigned_abs());
        RunId(Uuid::from_u128(self.id.0.as_u128() ^ n_before))
    }

    /// Whether this attempt is the workspace's prompt, which the agent takes by itself.
    pub fn is_prompt(&self) -> bool {
        self.work.origin == TaskOrigin::Spec && self.work.attempt == 1
    }

    pub fn channel(&self) -> Option<Channel> {
        self.delivery().channel()
    }

    /// Whether its working time has reached its timeout.
    pub fn has_exceeded_timeout(&self) -> bool {
        self.work.timeout.is_some_and(|timeout| self.work.worked >= timeout)
    }

    /// Whether it must be delivered before it is interrupted: later tasks build on the spec.
    pub fn must_be_delivered(&self) -> bool {
        self.is_superseded() && self.work.origin == TaskOrigin::Spec
    }

    /// Whether a later task interrupts it.
    pub fn is_superseded(&self) -> bool {
        self.work.cancel.is_some_and(|cancel| matches!(cancel.cause, CancelCause::Interrupt(_)))
    }

    /// The text of the message to the agent.
    pub fn message_text(&self) -> &str {
        if self.work.is_continued { CONTINUE_MESSAGE } else { &self.entry.message }
    }
}

impl TaskWork {
    pub fn fresh(origin: TaskOrigin) -> Self {
        Self {
            origin,
            is_urgent: false,
            attempt: 1,
            is_continued: false,
            timeout: None,
            worked: TimeDelta::zero(),
            last_sign: None,
            silent_since: None,
            parked_until: None,
            cancel: None,
            reached: Escalation::None,
            claim: None,
            head_before: None,
        }
    }
}

/// The status of an agent by its tasks. Runs beside the agent only make it busy; their end needs no attention, since
/// their callers wait for them.
pub fn seen(tasks: SeenTasks<'_>, clock: &Clock) -> TaskSeen {
    let Some(open) = tasks.open else {
        return match (tasks.running, tasks.report, tasks.last) {
            (Some(_), _, _) => TaskSeen::Working { last_sign: clock.now() },
            (None, Some(report), _) => seen_report(report),
            (None, None, Some(last)) if last.work.origin != TaskOrigin::Run => seen_ended(last),
            (None, None, Some(_) | None) => TaskSeen::None,
        };
    };
    let work = &open.work;
    if let Some(until) = work.parked_until {
        return TaskSeen::Parked { until };
    }
    if let Some(since) = work.silent_since.filter(|since| clock.since(*since) >= clock.limits().silence) {
        return TaskSeen::Silent { since };
    }
    match &open.stage {
        TaskStage::Queued | TaskStage::Delivering(_) => {
            let freed = tasks.last.and_then(|last| last.work.last_sign);
            TaskSeen::Pending {
                since: freed.map_or(open.entry.created_at, |at| at.max(open.entry.created_at)),
            }
        }
        TaskStage::Working(Work { since, .. }) | TaskStage::Ended { work: Work { since, .. }, .. } => {
            let begun = since.unwrap_or(open.entry.created_at);
            TaskSeen::Working { last_sign: work.last_sign.map_or(begun, |sign| sign.max(begun)) }
        }
    }
}

fn seen_report(report: &UnassignedReport) -> TaskSeen {
    if report.is_question {
        return TaskSeen::Asking { question: Some(report.text.clone()) };
    }
    match report.state {
        AppState::Failure => TaskSeen::Failed { outcome: Some(report.text.clone()) },
        AppState::Working => TaskSeen::Reported { work: report.text.clone(), at: report.at },
        AppState::Idle | AppState::Complete | AppState::Unknown(_) => TaskSeen::None,
    }
}

fn seen_ended(last: &Task) -> TaskSeen {
    let Some(end) = last.stage.end() else { return TaskSeen::None };
    match end.state {
        EndState::Failed | EndState::TimedOut => TaskSeen::Failed { outcome: end.outcome.clone() },
        EndState::Done if end.needs_answer => TaskSeen::Asking { question: last.question() },
        EndState::Done | EndState::Canceled => TaskSeen::None,
    }
}

impl TaskSource {
    /// An agent with manager rights counts as a manager; other agents create tasks for themselves only.
    pub fn of(kind: RoleKind) -> Self {
        match kind {
            RoleKind::Operator => Self::Human,
            RoleKind::Manager => Self::Manager,
            RoleKind::Coding | RoleKind::Review | RoleKind::Planning => Self::Agent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::AgentId;

    fn task(stage: TaskStage) -> Task {
        let entry = HistoryLine {
            agent_id: AgentId::fresh(),
            message: "do it".into(),
            source: TaskSource::Manager,
            generation: 1,
            created_at: DateTime::UNIX_EPOCH,
        };
        Task { id: TaskId::fresh(), entry, stage, work: TaskWork::fresh(TaskOrigin::Given) }
    }

    fn ended(state: EndState, needs_answer: bool) -> Task {
        let end = TaskEnd { state, outcome: Some("so".into()), needs_answer };
        task(TaskStage::Ended { end, verified: None, work: Work::NONE })
    }

    #[test]
    fn the_open_task_determines_the_status_else_the_last_task() {
        let at = |seconds| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let failed = TaskSeen::Failed { outcome: Some("so".into()) };
        fn with<'a>(open: Option<&'a Task>, last: Option<&'a Task>) -> SeenTasks<'a> {
            SeenTasks { open, last, ..SeenTasks::default() }
        }
        let after = |state| seen(with(None, Some(&ended(state, false))), &Clock::at(at(0)));
        assert_eq!(seen(with(None, None), &Clock::at(at(0))), TaskSeen::None);
        assert_eq!([EndState::Failed, EndState::TimedOut].map(after), [failed.clone(), failed]);
        assert_eq!([EndState::Done, EndState::Canceled].map(after), [TaskSeen::None, TaskSeen::None]);
        let mut asked = ended(EndState::Done, true);
        let asking = |question: &str| TaskSeen::Asking { question: Some(question.into()) };
        let ended_so = asking("ended with a question: so");
        assert_eq!(seen(with(None, Some(&asked)), &Clock::at(at(0))), ended_so);
        asked.work.claim = Some(Claim { kind: ClaimKind::Question, text: "so".into(), at: at(0) });
        assert_eq!(seen(with(None, Some(&asked)), &Clock::at(at(0))), asking("so"));

        let mut open = task(TaskStage::Delivering(None));
        let pending = |seconds| TaskSeen::Pending { since: at(seconds) };
        assert_eq!(seen(with(Some(&open), Some(&asked)), &Clock::at(at(0))), pending(0));
        asked.work.last_sign = Some(at(20));
        assert_eq!(
            seen(with(Some(&open), Some(&asked)), &Clock::at(at(21))),
            pending(20),
            "the agent was busy till then"
        );
        open.work.silent_since = Some(at(1));
        assert_eq!(seen(with(Some(&open), None), &Clock::at(at(30))), pending(0));
        assert_eq!(seen(with(Some(&open), None), &Clock::at(at(31))), TaskSeen::Silent { since: at(1) });
        let mut working = task(TaskStage::Working(Work { since: Some(at(5)), ..Work::NONE }));
        assert_eq!(
            seen(with(Some(&working), None), &Clock::at(at(9))),
            TaskSeen::Working { last_sign: at(5) }
        );
        working.work.last_sign = Some(at(7));
        assert_eq!(
            seen(with(Some(&working), None), &Clock::at(at(9))),
            TaskSeen::Working { last_sign: at(7) }
        );
        working.work.parked_until = Some(at(60));
        assert_eq!(seen(with(Some(&working), None), &Clock::at(at(9))), TaskSeen::Parked { until: at(60) });

        let mut run = ended(EndState::Failed, false);
        run.work.origin = TaskOrigin::Run;
        assert_eq!(seen(with(None, Some(&run)), &Clock::at(at(9))), TaskSeen::None);
        let beside = SeenTasks { running: Some(&run), ..with(None, Some(&asked)) };
        assert_eq!(seen(beside, &Clock::at(at(9))), TaskSeen::Working { last_sign: at(9) });
    }

    #[test]
    fn what_an_agent_says_of_itself_counts_between_its_tasks() {
        let failed = ended(EndState::Failed, false);
        let status_after = |state: AppState, is_question| {
            let report = UnassignedReport {
                state,
                text: "so".into(),
                is_question,
                generation: 1,
                number: 1,
                at: DateTime::UNIX_EPOCH,
            };
            let tasks = SeenTasks { last: Some(&failed), report: Some(&report), ..SeenTasks::default() };
            seen(tasks, &Clock::at(DateTime::UNIX_EPOCH))
        };
        let asking = TaskSeen::Asking { question: Some("so".into()) };
        for state in [AppState::Working, AppState::Idle, AppState::Complete, AppState::Failure] {
            assert_eq!(status_after(state, true), asking);
        }
        assert_eq!(status_after(AppState::Failure, false), TaskSeen::Failed { outcome: Some("so".into()) });
        let at_work = TaskSeen::Reported { work: "so".into(), at: DateTime::UNIX_EPOCH };
        assert_eq!(status_after(AppState::Working, false), at_work);
        assert_eq!(
            [AppState::Idle, AppState::Complete].map(|state| status_after(state, false)),
            [const { TaskSeen::None }; 2]
        );
    }
}
