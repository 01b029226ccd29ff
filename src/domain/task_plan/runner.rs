//! Tasks of our runner, which knows each by its id, accepts it once, and reports the end of its turn.

use chrono::{DateTime, Utc};

use super::ending::{canceled_unsent, cut_short, delivery_unknown, ended, ending};
use super::{Facts, TaskStep, continue_or_escalate, is_quiet, when_free};
use crate::domain::app::{AppSeen, PROMPT_KEY, RunnerSeen, TurnSeen, TurnState};
use crate::domain::task::{Channel, Delivery, EndState, Sending, Task};

const SEND: TaskStep = TaskStep::Send { channel: Channel::Runner, base: None };
const TAKE: TaskStep = TaskStep::MarkDelivered { channel: Channel::Runner, base: None };

/// The key to interrupt only this task; none if the app has no keys.
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
        Delivery::Delivered { channel: Channel::Runner, .. } if is_prompt => Some(PROMPT_KEY.to_owned()),
        Delivery::Sending(Sending { channel: Channel::Runner, .. })
        | Delivery::Delivered { channel: Channel::Runner, .. } => Some(task.key()),
        Delivery::Unsent | Delivery::Sending { .. } | Delivery::Delivered { .. } => None,
    }
}

/// Whether the runner has ended the turn of this task. Only then does the repository show its result.
pub fn is_over(task: &Task, seen: &RunnerSeen) -> bool {
    turn_of(task, seen).is_some_and(TurnSeen::is_ended)
}

pub(super) fn unsent(facts: &Facts<'_>, seen: &RunnerSeen) -> TaskStep {
    match turn_of(facts.task, seen) {
        Some(_) => TAKE,
        None if facts.task.is_prompt() && !is_quiet(facts) => TaskStep::Wait,
        None => when_free(facts, seen.is_stable, SEND),
    }
}

pub(super) fn sending(facts: &Facts<'_>, seen: &RunnerSeen, sent: Sending) -> TaskStep {
    match turn_of(facts.task, seen) {
        Some(_) => TAKE,
        None if facts.task.work.cancel.is_some() && !facts.task.must_be_delivered() => withdraw(facts),
        None if !remembers(facts, seen, sent.at) => delivery_unknown(facts),
        None => SEND,
    }
}

/// A message in flight could still arrive, so the runner must first refuse the task.
fn withdraw(facts: &Facts<'_>) -> TaskStep {
    let limit = facts.clock.limits().interrupt;
    let is_tried = facts.interrupting_since.is_some_and(|since| facts.clock.since(since) >= limit);
    if is_tried { canceled_unsent(facts) } else { TaskStep::Interrupt }
}

pub(super) fn taken(facts: &Facts<'_>, seen: &RunnerSeen) -> TaskStep {
    match turn_of(facts.task, seen).map(|turn| &turn.state) {
        Some(TurnState::Queued | TurnState::Working) => continue_or_escalate(facts),
        Some(TurnState::Ended(end)) => ended(facts, end),
        None => cut_short(facts, ending(EndState::Failed, Some("the agent has no record of this task"))),
    }
}

/// Whether the runner would know a delivered task. It would not if its journal was lost since, as in a workspace
/// without a persistent home.
fn remembers(facts: &Facts<'_>, seen: &RunnerSeen, sent_at: DateTime<Utc>) -> bool {
    let is_same_start = facts.task.entry.generation == facts.generation;
    is_same_start || seen.n_forgotten > 0 || seen.turns.iter().any(|turn| turn.accepted_at < sent_at)
}

/// The turn of this attempt; the first attempt of a spec is the workspace's prompt.
fn turn_of<'a>(task: &Task, seen: &'a RunnerSeen) -> Option<&'a TurnSeen> {
    let key = task.key();
    let by_key = seen.turns.iter().find(|turn| turn.key.as_deref() == Some(key.as_str()));
    by_key.or_else(|| seen.turns.iter().find(|turn| turn.is_prompt && task.is_prompt()))
}
