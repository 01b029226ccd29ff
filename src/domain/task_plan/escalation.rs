//! Ends a task in steps: interrupt, then signals, then a stop of the workspace if permitted.

use chrono::TimeDelta;

use super::ending::{cancel_reason, claim, ending, ending_as_claimed, overdue_for};
use super::{Ending, Facts, Reach, Signaling, TaskStep};
use crate::domain::task::{Channel, EndState, Escalation};

/// The outcome of a task whose engine was terminated by our signals.
pub(super) const SIGNALED: &str = "the agent did not react, so its processes were terminated";

/// The next step to end the task; none without a reason to end it.
pub(super) fn escalate(facts: &Facts<'_>) -> Option<TaskStep> {
    let cancel = facts.task.work.cancel;
    let wanted_for = cancel.map(|cancel| facts.clock.since(cancel.at)).or_else(|| overdue_for(facts))?;
    // A reachable agent is interrupted first, even if the reason is old.
    let asked_for = match (facts.interrupting_since, facts.reach) {
        (Some(asked), _) => facts.clock.since(asked).min(wanted_for),
        (None, Reach::Ready) => TimeDelta::zero(),
        (None, Reach::Away | Reach::Down | Reach::Broken) => wanted_for,
    };
    if asked_for < facts.clock.limits().interrupt {
        return Some(TaskStep::Interrupt);
    }
    // Older signals belong to an earlier attempt.
    let signaling = facts.signaling.filter(|signaling| facts.clock.since(signaling.since) <= wanted_for);
    if let Some(step) = signals(facts, signaling) {
        return Some(step);
    }
    if cancel.is_some_and(|cancel| cancel.may_stop) {
        return Some(TaskStep::StopWorkspace);
    }
    Some(TaskStep::End(given_up(facts, signaling)))
}

/// Only our runner identifies its engine's processes. After their end it has a moment to report the result.
fn signals(facts: &Facts<'_>, signaling: Option<Signaling>) -> Option<TaskStep> {
    let is_runner = facts.task.channel() == Some(Channel::Runner);
    if !is_runner || facts.reach != Reach::Ready {
        return None;
    }
    match signaling {
        None => Some(TaskStep::Signal),
        Some(signaling) if facts.clock.since(signaling.since) >= facts.clock.limits().signal => None,
        Some(Signaling { are_gone: true, .. }) => Some(TaskStep::Wait),
        Some(Signaling { are_gone: false, .. }) => Some(TaskStep::Signal),
    }
}

/// It is unknown whether the turn is over. A claim made before counts.
fn given_up(facts: &Facts<'_>, signaling: Option<Signaling>) -> Ending {
    let (reached, outcome) = match signaling {
        Some(Signaling { are_gone: true, .. }) => (Escalation::Signals, SIGNALED),
        Some(_) | None => (Escalation::None, "the agent did not react to the interrupt"),
    };
    let end = match (facts.task.work.cancel, claim(facts)) {
        (Some(cancel), _) => ending(EndState::Canceled, Some(&cancel_reason(cancel.cause, outcome, outcome))),
        (None, Some(claim)) => ending_as_claimed(&claim),
        (None, None) => ending(EndState::TimedOut, Some(outcome)),
    };
    Ending { reached, ..end }
}
