//! Tasks: pieces of work given to an agent, and what is recorded of them.

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

/// What an agent is told whose task was cut short by a stop, in the session that knows the task.
pub const GO_ON: &str = "You were interrupted by a restart of your workspace. Go on with the task where you stopped; \
                         do not repeat what is already done.";

word_enum! {
    /// Who gave the task; it comes from the principal, never from an argument.
    TaskSource {
        Agent = "agent",
        Human = "human",
        Manager = "manager",
    }
}

word_enum! {
    /// How the text reaches the agent.
    TaskOrigin {
        /// The workspace starts with it: the agent takes it by itself.
        Spec = "spec",
        /// We have to tell the agent.
        Given = "given",
        /// A process of its own in the workspace does it, beside the agent.
        Run = "run",
    }
}

word_enum! {
    /// What an agent says of the end of its work.
    ClaimKind {
        Complete = "complete",
        Failure = "failure",
        Question = "question",
    }
}

word_enum! {
    /// How far a cancel had to go.
    Reached {
        None = "none",
        Interrupt = "interrupt",
        Signals = "signals",
        Stop = "stop",
    }
}

/// A task with everything recorded of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    /// Its line in the history: text, source, generation.
    pub entry: HistoryLine,
    pub stage: TaskStage,
    pub work: TaskWork,
}

/// What is recorded of a task in whatever state it is, before and after each outside effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskWork {
    pub origin: TaskOrigin,
    /// It interrupts whatever the agent is doing, also what is no task of ours.
    pub is_urgent: bool,
    /// Counted from 1; a task that a usage limit or a stop cut short is told again under the next number.
    pub attempt: i64,
    /// This attempt goes on in the engine's session, so that the agent is told to go on instead of the whole text.
    pub is_continued: bool,
    pub timeout: Option<TimeDelta>,
    /// How long the agent has worked on it, measured without the wall clock; what is left of it after a restart of
    /// the server may be a little less.
    pub worked: TimeDelta,
    /// When the agent last showed that it lives.
    pub last_sign: Option<DateTime<Utc>>,
    /// Since when the agent's app does not answer.
    pub silent_since: Option<DateTime<Utc>>,
    /// The agent may not go on before this time.
    pub parked_until: Option<DateTime<Utc>>,
    pub cancel: Option<Cancel>,
    pub reached: Reached,
    pub claim: Option<Claim>,
    /// The commit the work began on, as far as it was seen.
    pub head_before: Option<String>,
}

/// The task is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancel {
    pub at: DateTime<Utc>,
    pub cause: CancelCause,
    /// May the workspace be stopped if nothing else helps?
    pub may_stop: bool,
}

/// Why a task is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// A caller canceled it.
    Request,
    /// This later task interrupts it.
    Interrupt(TaskId),
}

/// The agent's own word on the end of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub kind: ClaimKind,
    pub text: String,
    pub at: DateTime<Utc>,
}

/// The tasks of an agent that say something about it now.
#[derive(Debug, Clone, Copy, Default)]
pub struct SeenTasks<'a> {
    pub open: Option<&'a Task>,
    pub running: Option<&'a Task>,
    pub last: Option<&'a Task>,
    /// What the agent said of itself since any of them moved.
    pub word: Option<&'a Word>,
}

/// What an agent said of itself while it had no task of ours in hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub state: AppState,
    /// Its question, else its summary.
    pub text: String,
    pub is_question: bool,
    pub generation: i64,
    /// Grows with every word of the agent, whatever the wall clock does.
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
    /// What to do with a task for an agent that has one already.
    WhenBusy {
        Reject = "reject",
        Queue = "queue",
        Interrupt = "interrupt",
    }
}

impl Task {
    /// A task that waits, with nothing of it sent.
    pub fn accepted(id: TaskId, entry: HistoryLine, work: TaskWork) -> Self {
        Self { id, entry, stage: TaskStage::Queued, work }
    }

    pub fn state(&self) -> TaskState {
        self.stage.state()
    }

    pub fn delivery(&self) -> Delivery {
        self.stage.work().delivery
    }

    /// Since when the agent has this attempt.
    pub fn working_since(&self) -> Option<DateTime<Utc>> {
        self.stage.work().since
    }

    pub fn outcome(&self) -> Option<&str> {
        self.stage.end()?.outcome.as_deref()
    }

    pub fn needs_answer(&self) -> bool {
        self.stage.end().is_some_and(|end| end.needs_answer)
    }

    /// What its agent's history says of it.
    pub fn history(&self) -> HistoryEntry {
        let progress = self.stage.progress();
        HistoryEntry::Task(TaskEntry { id: self.id, line: self.entry.clone(), progress })
    }

    /// What the agent asked when it ended the task: a report is the question itself, an answer ends with it.
    fn question(&self) -> Option<String> {
        let is_reported = self.work.claim.as_ref().is_some_and(|claim| claim.kind == ClaimKind::Question);
        let outcome = self.outcome()?;
        Some(if is_reported { outcome.to_owned() } else { question::reason(outcome) })
    }

    /// The name by which our runner knows this attempt.
    pub fn key(&self) -> String {
        match self.work.attempt {
            1 => self.id.to_string(),
            attempt => format!("{}.{attempt}", self.id),
        }
    }

    /// The run that does this attempt where there is nobody to tell. It is named by the task, so that it begins once.
    pub fn run(&self) -> RunId {
        let n_before = u128::from(self.work.attempt.saturating_sub(1).unsigned_abs());
        RunId(Uuid::from_u128(self.id.0.as_u128() ^ n_before))
    }

    /// Does the workspace start with this attempt, so that its agent takes it by itself?
    pub fn is_prompt(&self) -> bool {
        self.work.origin == TaskOrigin::Spec && self.work.attempt == 1
    }

    pub fn channel(&self) -> Option<Channel> {
        self.delivery().channel()
    }

    /// Has it had all the time it was given?
    pub fn is_late(&self) -> bool {
        self.work.timeout.is_some_and(|timeout| self.work.worked >= timeout)
    }

    /// Must the agent have it before it may be interrupted? A later task builds on the spec.
    pub fn is_owed(&self) -> bool {
        self.is_superseded() && self.work.origin == TaskOrigin::Spec
    }

    /// Is it being ended for a later task that interrupts it?
    pub fn is_superseded(&self) -> bool {
        self.work.cancel.is_some_and(|cancel| matches!(cancel.cause, CancelCause::Interrupt(_)))
    }

    /// What the agent is told.
    pub fn words(&self) -> &str {
        if self.work.is_continued { GO_ON } else { &self.entry.message }
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
            reached: Reached::None,
            claim: None,
            head_before: None,
        }
    }
}

/// What an agent's tasks say about its status. What others run in its workspace keeps it busy, and is seen to by
/// those who wait for it.
pub fn seen(tasks: SeenTasks<'_>, clock: &Clock) -> TaskSeen {
    let Some(open) = tasks.open else {
        return match (tasks.running, tasks.word, tasks.last) {
            (Some(_), _, _) => TaskSeen::Working { last_sign: clock.now() },
            (None, Some(word), _) => seen_word(word),
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

fn seen_word(word: &Word) -> TaskSeen {
    if word.is_question {
        return TaskSeen::Asking { question: Some(word.text.clone()) };
    }
    match word.state {
        AppState::Failure => TaskSeen::Failed { outcome: Some(word.text.clone()) },
        AppState::Working => TaskSeen::Reported { work: word.text.clone(), at: word.at },
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
    /// A manager counts as a manager even when it is an agent; other agents give tasks to themselves only.
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
    fn an_open_task_speaks_for_the_agent_and_else_the_last_one_does() {
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
        let said = |state: AppState, is_question| {
            let word = Word {
                state,
                text: "so".into(),
                is_question,
                generation: 1,
                number: 1,
                at: DateTime::UNIX_EPOCH,
            };
            let tasks = SeenTasks { last: Some(&failed), word: Some(&word), ..SeenTasks::default() };
            seen(tasks, &Clock::at(DateTime::UNIX_EPOCH))
        };
        let asking = TaskSeen::Asking { question: Some("so".into()) };
        for state in [AppState::Working, AppState::Idle, AppState::Complete, AppState::Failure] {
            assert_eq!(said(state, true), asking);
        }
        assert_eq!(said(AppState::Failure, false), TaskSeen::Failed { outcome: Some("so".into()) });
        let at_work = TaskSeen::Reported { work: "so".into(), at: DateTime::UNIX_EPOCH };
        assert_eq!(said(AppState::Working, false), at_work);
        assert_eq!(
            [AppState::Idle, AppState::Complete].map(|state| said(state, false)),
            [const { TaskSeen::None }; 2]
        );
    }
}
