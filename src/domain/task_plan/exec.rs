//! Tasks that a run of the project's engine does, where the workspace has no app.

use super::ending::{canceled_unsent, cut_short, ended, ending};
use super::{Facts, Step, keep_on};
use crate::domain::app::TurnState;
use crate::domain::task::{Channel, EndState};

pub(super) fn sending(facts: &Facts<'_>) -> Step {
    match facts.run {
        Some(_) => Step::Take { channel: Channel::Exec, base: None },
        None if facts.task.work.cancel.is_some() && !facts.task.is_owed() => canceled_unsent(facts),
        None => Step::Send { channel: Channel::Exec, base: None },
    }
}

pub(super) fn taken(facts: &Facts<'_>) -> Step {
    match facts.run {
        Some(TurnState::Queued | TurnState::Working) => keep_on(facts),
        Some(TurnState::Ended(end)) => ended(facts, end),
        None => cut_short(facts, ending(EndState::Failed, Some("the record of its run is missing"))),
    }
}
