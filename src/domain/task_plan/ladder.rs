//! The way to end a task that somebody wants ended: a plea, then signals, then, if allowed, a stop of the workspace.

use chrono::TimeDelta;

use super::ending::{claim, ending, overdue_for, why, word_of};
use super::{Ending, Facts, Reach, Signaling, Step};
use crate::domain::task::{Channel, EndState, Reached};

/// How a task ended whose engine fell by our own hand.
pub(super) const SIGNALED: &str = "the agent did not react, so its processes were terminated";

/// The way to end it, harder with time; none when there is no reason to.
pub(super) fn ladder(facts: &Facts<'_>) -> Option<Step> {
    let cancel = facts.task.work.cancel;
    let wanted_for = cancel.map(|cancel| facts.clock.since(cancel.at)).or_else(|| overdue_for(facts))?;
    // An agent that can be reached is asked before it is given up, however long ago the reason came up.
    let asked_for = match (facts.interrupting_since, facts.reach) {
        (Some(asked), _) => facts.clock.since(asked).min(wanted_for),
        (None, Reach::Ready) => TimeDelta::zero(),
        (None, Reach::Away | Reach::Down | Reach::Broken) => wanted_for,
    };
    if asked_for < facts.clock.limits().interrupt {
        return Some(Step::Interrupt);
    }
    // Signals from before are of an earlier attempt.
    let signaling = facts.signaling.filter(|signaling| facts.clock.since(signaling.since) <= wanted_for);
    if let Some(step) = signals(facts, signaling) {
        return Some(step);
    }
    if cancel.is_some_and(|cancel| cancel.may_stop) {
        return Some(Step::StopWorkspace);
    }
    Some(Step::End(given_up(facts, signaling)))
}

/// Only our own runner says which processes are its engine's. Once they are gone it has a moment to tell how it ended.
fn signals(facts: &Facts<'_>, signaling: Option<Signaling>) -> Option<Step> {
    let is_runner = facts.task.channel() == Some(Channel::Runner);
    if !is_runner || facts.reach != Reach::Ready {
        return None;
    }
    match signaling {
        None => Some(Step::Signal),
        Some(signaling) if facts.clock.since(signaling.since) >= facts.clock.limits().signal => None,
        Some(Signaling { are_gone: true, .. }) => Some(Step::Wait),
        Some(Signaling { are_gone: false, .. }) => Some(Step::Signal),
    }
}

/// Nothing shows whether it is over. What the agent claimed by then stands.
fn given_up(facts: &Facts<'_>, signaling: Option<Signaling>) -> Ending {
    let (reached, outcome) = match signaling {
        Some(Signaling { are_gone: true, .. }) => (Reached::Signals, SIGNALED),
        Some(_) | None => (Reached::None, "the agent did not react to the interrupt"),
    };
    let end = match (facts.task.work.cancel, claim(facts)) {
        (Some(cancel), _) => ending(EndState::Canceled, Some(&why(cancel.cause, outcome, outcome))),
        (None, Some(claim)) => word_of(&claim),
        (None, None) => ending(EndState::TimedOut, Some(outcome)),
    };
    Ending { reached, ..end }
}
