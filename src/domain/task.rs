//! Tasks: pieces of work given to an agent, and the moves between their states that are legal.

use std::fmt;

use super::role::RoleKind;
use super::word_enum::word_enum;

word_enum! {
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
    /// Who gave the task; it comes from the principal, never from an argument.
    TaskSource {
        Agent = "agent",
        Human = "human",
        Manager = "manager",
    }
}

impl TaskState {
    pub fn is_ended(self) -> bool {
        match self {
            Self::Queued | Self::Delivering | Self::Working => false,
            Self::Done | Self::Failed | Self::Canceled | Self::TimedOut => true,
        }
    }

    /// An ended task never reopens, and no task goes back to the queue.
    pub fn may_become(self, next: Self) -> bool {
        !self.is_ended() && next > self
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
}
