//! Tasks executed by a run of the project's engine, in workspaces without an app.

use super::ending::{canceled_unsent, cut_short, ended, ending};
use super::{Facts, TaskStep, continue_or_escalate};
use crate::domain::app::TurnState;
use crate::domain::task::{Channel, EndState};

pub(super) fn sending(facts: &Facts<'_>) -> TaskStep {
    match facts.run {
        Some(_) => TaskStep::MarkDelivered { channel: Channel::Exec, base: None },
        None if facts.task.work.cancel.is_some() && !facts.task.must_be_delivered() => canceled_unsent(facts),
        None => TaskStep::Send { channel: Channel::Exec, base: None },
    }
}

pub(super) fn taken(facts: &Facts<'_>) -> TaskStep {
    match facts.run {
        Some(TurnState::Queued | TurnState::Working) => continue_or_escalate(facts),
        Some(TurnState::Ended(end)) => ended(facts, end),
        None => cut_short(facts, ending(EndState::Failed, Some("the record of its run is missing"))),
    }
}
