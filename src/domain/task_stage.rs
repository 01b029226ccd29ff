//! The states of a task, each with the data that exists in that state only, and the legal transitions.

use std::fmt;

use chrono::{DateTime, Utc};

use super::word_enum::word_enum;

word_enum! {
    /// The keyword of a task's state.
    TaskState {
        Queued = "queued",
        Delivering = "delivering",
        Working = "working",
        Done = "done",
        Failed = "failed",
        Canceled = "canceled",
        TimedOut = "timed_out",
    }
}

word_enum! {
    /// The final states.
    EndState {
        Done = "done",
        Failed = "failed",
        Canceled = "canceled",
        TimedOut = "timed_out",
    }
}

word_enum! {
    /// The channel that delivered a task.
    Channel {
        /// Our runner, which knows tasks by id and runs each once.
        Runner = "runner",
        /// Any other AgentAPI, which has only texts.
        AgentApi = "agent_api",
        /// No app to query: only the agent's reports show its progress.
        Reports = "reports",
        /// The project's engine, run once by a command in the workspace.
        Exec = "exec",
    }
}

/// A task's state with its data, as stored in the task's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskStage {
    /// Accepted, not sent.
    Queued,
    /// Its first message is being delivered; none after the agent refused a message.
    Delivering(Option<Sending>),
    /// Delivered; also while a stop or a usage limit interrupts it.
    Working(Work),
    Ended {
        end: TaskEnd,
        verified: Option<Verified>,
        /// The progress before its end.
        work: Work,
    },
}

/// A task's state as stored in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskProgress {
    Queued,
    Delivering,
    Working,
    Ended(TaskEnd),
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEnd {
    pub state: EndState,
    /// The agent's claim, or the reason for the end.
    pub outcome: Option<String>,
    pub needs_answer: bool,
}

/// The progress of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    pub delivery: Delivery,
    /// Since when the agent has this attempt; none before its delivery.
    pub since: Option<DateTime<Utc>>,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Not sent.
    Unsent,
    /// The send was recorded before it began; its success must be looked up.
    Sending(Sending),
    /// The agent has the message.
    Delivered { channel: Channel, at: DateTime<Utc>, base: Option<i64> },
}

/// A recorded send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    pub channel: Channel,
    pub at: DateTime<Utc>,
    /// The id of the agent's last message before the send.
    pub base: Option<i64>,
    /// The app acknowledged the message.
    pub is_acknowledged: bool,
}

/// The verified part of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub commit: Option<String>,
    /// Whether the task made that commit; none if the commit before the work is unknown.
    pub is_new: Option<bool>,
    pub is_pushed: bool,
    pub is_clean: bool,
}

impl TaskStage {
    pub fn state(&self) -> TaskState {
        match self {
            Self::Queued => TaskState::Queued,
            Self::Delivering(_) => TaskState::Delivering,
            Self::Working(_) => TaskState::Working,
            Self::Ended { end, .. } => end.state.into(),
        }
    }

    pub fn work(&self) -> Work {
        match self {
            Self::Queued => Work::NONE,
            Self::Delivering(sending) => Work { delivery: (*sending).into(), since: None },
            Self::Working(work) | Self::Ended { work, .. } => *work,
        }
    }

    pub fn end(&self) -> Option<&TaskEnd> {
        match self {
            Self::Ended { end, .. } => Some(end),
            Self::Queued | Self::Delivering(_) | Self::Working(_) => None,
        }
    }

    pub fn verified(&self) -> Option<&Verified> {
        match self {
            Self::Ended { verified, .. } => verified.as_ref(),
            Self::Queued | Self::Delivering(_) | Self::Working(_) => None,
        }
    }

    pub fn progress(&self) -> TaskProgress {
        match self {
            Self::Queued => TaskProgress::Queued,
            Self::Delivering(_) => TaskProgress::Delivering,
            Self::Working(_) => TaskProgress::Working,
            Self::Ended { end, .. } => TaskProgress::Ended(end.clone()),
        }
    }

    /// Combines the parts of a record; none if they contradict each other.
    pub fn of(progress: TaskProgress, work: Work, verified: Option<Verified>) -> Option<Self> {
        match (progress, work.delivery) {
            (TaskProgress::Queued, Delivery::Unsent) if work.since.is_none() => Some(Self::Queued),
            (TaskProgress::Delivering, Delivery::Unsent) if work.since.is_none() => {
                Some(Self::Delivering(None))
            }
            (TaskProgress::Delivering, Delivery::Sending(sending)) if work.since.is_none() => {
                Some(Self::Delivering(Some(sending)))
            }
            (TaskProgress::Working, _) => Some(Self::Working(work)),
            (TaskProgress::Ended(end), _) => Some(Self::Ended { end, verified, work }),
            (TaskProgress::Queued | TaskProgress::Delivering, _) => None,
        }
    }
}

impl TaskProgress {
    pub fn state(&self) -> TaskState {
        match self {
            Self::Queued => TaskState::Queued,
            Self::Delivering => TaskState::Delivering,
            Self::Working => TaskState::Working,
            Self::Ended(end) => end.state.into(),
        }
    }

    pub fn end(&self) -> Option<&TaskEnd> {
        match self {
            Self::Ended(end) => Some(end),
            Self::Queued | Self::Delivering | Self::Working => None,
        }
    }

    /// None if the record has an outcome or a question without a final state.
    pub fn of(state: TaskState, outcome: Option<String>, needs_answer: bool) -> Option<Self> {
        let open = match state.end() {
            Some(state) => return Some(Self::Ended(TaskEnd { state, outcome, needs_answer })),
            None if outcome.is_some() || needs_answer => return None,
            None => state,
        };
        match open {
            TaskState::Queued => Some(Self::Queued),
            TaskState::Delivering => Some(Self::Delivering),
            TaskState::Working => Some(Self::Working),
            TaskState::Done | TaskState::Failed | TaskState::Canceled | TaskState::TimedOut => None,
        }
    }
}

impl Work {
    pub const NONE: Self = Self { delivery: Delivery::Unsent, since: None };
}

impl Delivery {
    pub fn channel(self) -> Option<Channel> {
        match self {
            Self::Unsent => None,
            Self::Sending(Sending { channel, .. }) | Self::Delivered { channel, .. } => Some(channel),
        }
    }

    pub fn sent_at(self) -> Option<DateTime<Utc>> {
        match self {
            Self::Unsent => None,
            Self::Sending(Sending { at, .. }) | Self::Delivered { at, .. } => Some(at),
        }
    }
}

impl From<Option<Sending>> for Delivery {
    fn from(sending: Option<Sending>) -> Self {
        sending.map_or(Self::Unsent, Self::Sending)
    }
}

impl TaskState {
    pub fn is_ended(self) -> bool {
        self.end().is_some()
    }

    pub fn end(self) -> Option<EndState> {
        match self {
            Self::Queued | Self::Delivering | Self::Working => None,
            Self::Done => Some(EndState::Done),
            Self::Failed => Some(EndState::Failed),
            Self::Canceled => Some(EndState::Canceled),
            Self::TimedOut => Some(EndState::TimedOut),
        }
    }

    /// Final states are never left, and no task returns to the queue.
    pub fn may_become(self, next: Self) -> bool {
        !self.is_ended() && next > self
    }
}

impl From<EndState> for TaskState {
    fn from(end: EndState) -> Self {
        match end {
            EndState::Done => Self::Done,
            EndState::Failed => Self::Failed,
            EndState::Canceled => Self::Canceled,
            EndState::TimedOut => Self::TimedOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_only_move_forward_and_never_reopen() {
        use TaskState::{Canceled, Delivering, Done, Failed, Queued, TimedOut, Working};
        let legal: Vec<(TaskState, TaskState)> = TaskState::ALL
            .iter()
            .flat_map(|from| TaskState::ALL.iter().map(|to| (*from, *to)))
            .filter(|(from, to)| from.may_become(*to))
            .collect();
        let ends = [Done, Failed, Canceled, TimedOut];
        let mut expected = vec![(Queued, Delivering), (Queued, Working)];
        expected.extend(ends.map(|end| (Queued, end)));
        expected.push((Delivering, Working));
        expected.extend(ends.map(|end| (Delivering, end)));
        expected.extend(ends.map(|end| (Working, end)));
        assert_eq!(legal, expected);
    }

    #[test]
    fn every_state_is_open_or_has_the_keyword_of_an_end_state() {
        let ends: Vec<EndState> = TaskState::ALL.iter().filter_map(|state| state.end()).collect();
        assert_eq!(ends, EndState::ALL);
        for end in EndState::ALL {
            assert_eq!((TaskState::from(*end).word(), TaskState::from(*end).end()), (end.word(), Some(*end)));
        }
    }

    fn at() -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    fn deliveries() -> [Delivery; 3] {
        let (channel, at, base) = (Channel::Runner, at(), None);
        let sending = Sending { channel, at, base, is_acknowledged: true };
        [Delivery::Unsent, Delivery::Sending(sending), Delivery::Delivered { channel, at, base }]
    }

    #[test]
    fn only_an_ended_task_has_an_outcome() {
        for state in TaskState::ALL {
            assert_eq!(TaskProgress::of(*state, None, false).map(|progress| progress.state()), Some(*state));
            let progress_end = TaskProgress::of(*state, Some("so".to_owned()), true);
            let end = state.end().map(|state| TaskEnd {
                state,
                outcome: Some("so".to_owned()),
                needs_answer: true,
            });
            assert_eq!(progress_end, end.map(TaskProgress::Ended), "{state}");
        }
    }

    #[test]
    fn a_record_that_contradicts_itself_is_no_stage_and_any_other_is_kept_whole() {
        let mut refused = Vec::new();
        for state in TaskState::ALL {
            for (n, delivery) in deliveries().into_iter().enumerate() {
                for since in [None, Some(at())] {
                    let work = Work { delivery, since };
                    let progress = TaskProgress::of(*state, None, false).unwrap();
                    match TaskStage::of(progress.clone(), work, None) {
                        Some(stage) => assert_eq!((stage.progress(), stage.work()), (progress, work)),
                        None => refused.push((state.word(), n, since.is_some())),
                    }
                }
            }
        }
        let queued = [(0, true), (1, false), (1, true), (2, false), (2, true)];
        let delivering = [(0, true), (1, true), (2, false), (2, true)];
        let mut expected: Vec<_> = queued.map(|(n, begun)| ("queued", n, begun)).to_vec();
        expected.extend(delivering.map(|(n, begun)| ("delivering", n, begun)));
        assert_eq!(refused, expected);
    }
}
