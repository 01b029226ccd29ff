//! The order of an agent's tasks: executed in the order accepted, and the effect of a new task on the others.

use chrono::{DateTime, TimeDelta, Utc};

use super::id::TaskId;
use super::task::{Task, TaskOrigin, TaskState, WhenBusy};

/// The limit on queued tasks per agent.
const LONGEST_QUEUE: usize = 100;

/// How a new task relates to the existing ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    pub when_busy: WhenBusy,
    /// Whether the spec is still being delivered to a starting workspace. Then it is no reason to refuse.
    pub is_starting: bool,
}

/// The effects of accepting a task, applied atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Later than every task before it, independent of the wall clock.
    pub accepted_at: DateTime<Utc>,
    /// Tasks that were never delivered: they end with the acceptance.
    pub ended: Vec<TaskId>,
    /// Tasks that the agent has, may have, or must have first: they are interrupted.
    pub interrupted: Vec<TaskId>,
    /// Tasks that it waits for and that are not interrupted.
    pub n_before: usize,
}

/// Why a task is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Busy,
    QueueFull,
}

/// Decides on a new task, given the open ones. Tasks beside the agent do not count.
pub fn admit(created_at: DateTime<Utc>, admission: Admission, open: &[Task]) -> Result<Admitted, Refused> {
    let open: Vec<&Task> = open.iter().filter(|task| task.work.origin != TaskOrigin::Run).collect();
    let n_queued = open.iter().filter(|task| task.state() == TaskState::Queued).count();
    let newest = open.iter().map(|task| task.entry.created_at + TimeDelta::microseconds(1)).max();
    let accepted_at = newest.map_or(created_at, |newest| newest.max(created_at));
    let mut admitted =
        Admitted { accepted_at, ended: Vec::new(), interrupted: Vec::new(), n_before: open.len() };
    match admission.when_busy {
        WhenBusy::Reject if open.iter().any(|task| is_in_the_way(task, admission)) => Err(Refused::Busy),
        WhenBusy::Queue if n_queued >= LONGEST_QUEUE => Err(Refused::QueueFull),
        WhenBusy::Reject | WhenBusy::Queue => Ok(admitted),
        WhenBusy::Interrupt => {
            let (ended, interrupted) = open.into_iter().partition(|task| may_be_dropped(task));
            let ids = |tasks: Vec<&Task>| tasks.into_iter().map(|task| task.id).collect();
            (admitted.ended, admitted.interrupted, admitted.n_before) = (ids(ended), ids(interrupted), 0);
            Ok(admitted)
        }
    }
}

/// The sort key of an open task; the first is the current one. A task that has begun stays current.
pub fn place(task: &Task) -> (bool, DateTime<Utc>, TaskId) {
    (task.state() == TaskState::Queued, task.entry.created_at, task.id)
}

fn is_in_the_way(task: &Task, admission: Admission) -> bool {
    !admission.is_starting || task.work.origin == TaskOrigin::Given || task.work.attempt > 1
}

/// The workspace starts with its spec, so the agent gets that one in any case.
fn may_be_dropped(task: &Task) -> bool {
    task.state() == TaskState::Queued && task.work.origin != TaskOrigin::Spec
}
