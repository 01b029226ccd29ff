//! Tasks that our own runner does: it knows each by its id, takes it once, and tells how its turn ended.

use chrono::{DateTime, Utc};

use super::ending::{canceled_unsent, cut_short, ended, ending, lost};
use super::{Facts, Step, is_quiet, keep_on, when_free};
use crate::domain::app::{AppSeen, PROMPT_KEY, RunnerSeen, TurnSeen, TurnState};
use crate::domain::task::{Channel, Delivery, EndState, Sending, Task};

const SEND: Step = Step::Send { channel: Channel::Runner, base: None };
const TAKE: Step = Step::Take { channel: Channel::Runner, base: None };

/// The name by which only this task is interrupted; none where the agent knows no names.
pub fn interrupt_key(task: &Task, app: &AppSeen) -> Option<String> {
    let is_prompt = match app {
        AppSeen::Runner(seen) => turn_of(task, seen).is_some_and(|turn| turn.is_prompt),
        AppSeen::Unasked
        | AppSeen::Absent
        | AppSeen::Foreign
        | AppSeen::Silent { .. }
        | AppSeen::AgentApi(_) => task.is_prompt(),
    };
    match task.delivery() {
        Delivery::Taken { channel: Channel::Runner, .. } if is_prompt => Some(PROMPT_KEY.to_owned()),
        Delivery::Sending(Sending { channel: Channel::Runner, .. })
        | Delivery::Taken { channel: Channel::Runner, .. } => Some(task.key()),
        Delivery::Unsent | Delivery::Sending { .. } | Delivery::Taken { .. } => None,
    }
}

/// Has the runner ended its turn of this task? Only then does the repository show what came of it.
pub fn is_over(task: &Task, seen: &RunnerSeen) -> bool {
    turn_of(task, seen).is_some_and(TurnSeen::is_ended)
}

pub(super) fn unsent(facts: &Facts<'_>, seen: &RunnerSeen) -> Step {
    match turn_of(facts.task, seen) {
        Some(_) => TAKE,
        None if facts.task.is_prompt() && !is_quiet(facts) => Step::Wait,
        None => when_free(facts, seen.is_stable, SEND),
    }
}

pub(super) fn sending(facts: &Facts<'_>, seen: &RunnerSeen, sent: Sending) -> Step {
    match turn_of(facts.task, seen) {
        Some(_) => TAKE,
        None if facts.task.work.cancel.is_some() && !facts.task.is_owed() => withdraw(facts),
        None if !remembers(facts, seen, sent.at) => lost(facts),
        None => SEND,
    }
}

/// The message may still be on its way: the runner is told to take none of it before the task ends here.
fn withdraw(facts: &Facts<'_>) -> Step {
    let limit = facts.clock.limits().interrupt;
    let is_tried = facts.interrupting_since.is_some_and(|since| facts.clock.since(since) >= limit);
    if is_tried { canceled_unsent(facts) } else { Step::Interrupt }
}

pub(super) fn taken(facts: &Facts<'_>, seen: &RunnerSeen) -> Step {
    match turn_of(facts.task, seen).map(|turn| &turn.state) {
        Some(TurnState::Queued | TurnState::Working) => keep_on(facts),
        Some(TurnState::Ended(end)) => ended(facts, end),
        None => cut_short(facts, ending(EndState::Failed, Some("the agent has no record of this task"))),
    }
}

/// Would the runner know the task if it had come? Not if it has lost its journal since, as a workspace without a
/// lasting home does at each start.
fn remembers(facts: &Facts<'_>, seen: &RunnerSeen, sent_at: DateTime<Utc>) -> bool {
    let is_same_start = facts.task.entry.generation == facts.generation;
    is_same_start || seen.n_forgotten > 0 || seen.turns.iter().any(|turn| turn.accepted_at < sent_at)
}

/// The turn of this attempt; the first one of a spec is what the workspace started with.
fn turn_of<'a>(task: &Task, seen: &'a RunnerSeen) -> Option<&'a TurnSeen> {
    let key = task.key();
    let by_key = seen.turns.iter().find(|turn| turn.key.as_deref() == Some(key.as_str()));
    by_key.or_else(|| seen.turns.iter().find(|turn| turn.is_prompt && task.is_prompt()))
}
