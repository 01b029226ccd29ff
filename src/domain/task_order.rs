//! The order of an agent's tasks: done as they were accepted, one after another, and what a new one does to the others.

use chrono::{DateTime, TimeDelta, Utc};

use super::id::TaskId;
use super::task::{Task, TaskOrigin, TaskState, WhenBusy};

/// More tasks than this never wait for one agent.
const LONGEST_QUEUE: usize = 100;

/// How a new task meets those there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    pub when_busy: WhenBusy,
    /// Is the spec still on its way into a workspace that starts? Then it is no reason to refuse.
    pub is_starting: bool,
}

/// What accepting a task does, all of it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Later than every task before it, whatever the wall clock does.
    pub accepted_at: DateTime<Utc>,
    /// Tasks that the agent never had: they end with the acceptance.
    pub ended: Vec<TaskId>,
    /// Tasks that the agent has, may have, or must have first: they are interrupted.
    pub interrupted: Vec<TaskId>,
    /// Tasks that it waits for and that are not interrupted.
    pub n_before: usize,
}

/// Why a task is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Busy,
    QueueFull,
}

/// Decides on a new task, given those that have not ended. What runs beside the agent does not count.
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

/// The place of a task among those that have not ended; the first is the one in hand. What has begun stays in hand.
pub fn place(task: &Task) -> (bool, DateTime<Utc>, TaskId) {
    (task.state() == TaskState::Queued, task.entry.created_at, task.id)
}

fn is_in_the_way(task: &Task, admission: Admission) -> bool {
    !admission.is_starting || task.work.origin == TaskOrigin::Given || task.work.attempt > 1
}

/// The workspace starts with its spec, so that the agent has that one in any case.
fn may_be_dropped(task: &Task) -> bool {
    task.state() == TaskState::Queued && task.work.origin != TaskOrigin::Spec
}
