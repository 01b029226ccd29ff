//! The way to end a task that somebody wants ended: a plea, then signals, then, if allowed, a stop of the workspace.

use chrono::TimeDelta;

use super::task::{Channel, Reached, TaskState};
use super::task_plan::{Ending, Facts, Reach, Signaling, Step, ending};

/// How long an interruption may take; our runner's own signals are over by then.
pub const INTERRUPT_LIMIT: TimeDelta = TimeDelta::seconds(10);
/// How long signals to the engine may take, and the runner to see what became of it.
pub const SIGNAL_LIMIT: TimeDelta = TimeDelta::seconds(10);
/// How a task ended whose engine fell by our own hand.
pub(super) const SIGNALED: &str = "the agent did not react, so its processes were ended";

/// The way to end it, harder with time; none when nobody wants it ended.
pub(super) fn ladder(facts: &Facts<'_>) -> Option<Step> {
    let cancel = facts.task.work.cancel;
    let (since, state) = match (cancel, facts.task.deadline()) {
        (Some(cancel), _) => (cancel.at, TaskState::Canceled),
        (None, Some(deadline)) if facts.now >= deadline => (deadline, TaskState::TimedOut),
        (None, _) => return None,
    };
    // An agent that can be reached is asked before it is given up, however long ago somebody wished for it.
    let asked_since = match (facts.interrupting_since, facts.reach) {
        (Some(asked), _) => asked.max(since),
        (None, Reach::Ready) => facts.now,
        (None, Reach::Away | Reach::Down) => since,
    };
    if facts.now - asked_since < INTERRUPT_LIMIT {
        return Some(Step::Interrupt);
    }
    if let Some(step) = signals(facts) {
        return Some(step);
    }
    if cancel.is_some_and(|cancel| cancel.may_stop) {
        return Some(Step::StopWorkspace);
    }
    let (reached, outcome) = match facts.signaling {
        Some(Signaling { are_gone: true, .. }) => (Reached::Signals, SIGNALED),
        Some(_) | None => (Reached::None, "the agent did not react to the interruption"),
    };
    Some(Step::End(Ending { reached, ..ending(state, Some(outcome)) }))
}

/// Only our own runner says which processes are its engine's. Once they are gone it has a moment to tell how it ended.
fn signals(facts: &Facts<'_>) -> Option<Step> {
    let is_runner = facts.task.channel() == Some(Channel::Runner);
    if !is_runner || facts.reach != Reach::Ready {
        return None;
    }
    match facts.signaling {
        None => Some(Step::Signal),
        Some(signaling) if facts.now - signaling.since >= SIGNAL_LIMIT => None,
        Some(Signaling { are_gone: true, .. }) => Some(Step::Wait),
        Some(Signaling { are_gone: false, .. }) => Some(Step::Signal),
    }
}
