//! Tasks for any other AgentAPI, which has only texts: sent at most once, looked up by text and time.

use chrono::TimeDelta;

use super::ending::{self, delivery_unknown, end_as_claimed, interrupted, limited};
use super::{Facts, TaskStep, continue_or_escalate, is_quiet, when_free};
use crate::domain::app::{AgentApiSeen, MessageSeen, Speaker};
use crate::domain::task::{Channel, Sending, Task};
use crate::domain::usage_limit::{self, Limit};
use crate::domain::words::AppState;

/// The assumed maximum difference of our clock and the workspace's.
const CLOCK_SKEW: TimeDelta = TimeDelta::seconds(120);

pub(super) fn unsent(facts: &Facts<'_>, seen: &AgentApiSeen) -> TaskStep {
    if facts.task.is_prompt() {
        return spec(facts, seen);
    }
    when_free(facts, seen.is_stable, send(seen))
}

/// A template may pass the spec as a message or in another way that shows no message.
fn spec(facts: &Facts<'_>, seen: &AgentApiSeen) -> TaskStep {
    if let Some(message) = own_message(facts.task, &seen.messages, None) {
        return take(Some(message.id));
    }
    let was_asked = seen.messages.iter().any(|message| message.role == Speaker::User);
    let is_at_work = facts.report.is_some_and(|report| report.state != AppState::Idle);
    match (seen.is_stable, is_quiet(facts)) {
        (_, _) if is_at_work && !was_asked => take(last_id(&seen.messages)),
        (true, true) => send(seen),
        (false, true) if !was_asked => take(last_id(&seen.messages)),
        (true | false, _) => TaskStep::Wait,
    }
}

/// The text has arrived if it is among the messages, or if the agent works or answers after an acknowledged send.
pub(super) fn sending(facts: &Facts<'_>, seen: &AgentApiSeen, sent: Sending) -> TaskStep {
    if let Some(message) = own_message(facts.task, &seen.messages, Some(&sent)) {
        return take(Some(message.id));
    }
    let has_moved = !seen.is_stable || last_id(&seen.messages) > sent.base;
    if sent.is_acknowledged && has_moved {
        return take(sent.base);
    }
    if is_lost(facts, sent) || facts.task.entry.generation != facts.generation {
        delivery_unknown(facts)
    } else {
        TaskStep::Wait
    }
}

pub(super) fn sending_unseen(facts: &Facts<'_>, sent: Sending) -> TaskStep {
    if is_lost(facts, sent) { delivery_unknown(facts) } else { continue_or_escalate(facts) }
}

/// A stable agent has ended its turn; its claim or else its answer is the result.
pub(super) fn taken(facts: &Facts<'_>, seen: &AgentApiSeen, base: Option<i64>) -> TaskStep {
    if !seen.is_stable {
        return continue_or_escalate(facts);
    }
    let answer = seen.messages.iter().rev().find(|m| m.role == Speaker::Agent && Some(m.id) > base);
    match (ending::claim(facts), answer) {
        (None, None) => continue_or_escalate(facts),
        (Some(_), _) | (_, Some(_)) if was_interrupted(facts) => interrupted(facts),
        (Some(claim), _) => end_as_claimed(facts, &claim),
        (None, Some(answer)) => answered(facts, answer.content.trim()),
    }
}

/// AgentAPI reports no failures: an answer that consists of a usage limit notice is a usage limit.
fn answered(facts: &Facts<'_>, text: &str) -> TaskStep {
    match usage_limit::read_notice(text, facts.clock.now()) {
        Limit::None => ending::answered(text),
        limit @ (Limit::Open | Limit::Until(_)) => limited(facts, limit, text),
    }
}

/// Whether our interrupt ended the turn. A turn that ended before any interrupt is not late, however late we observe
/// it.
fn was_interrupted(facts: &Facts<'_>) -> bool {
    facts.task.work.cancel.is_some()
        || (facts.task.has_exceeded_timeout() && facts.interrupting_since.is_some())
}

fn is_lost(facts: &Facts<'_>, sent: Sending) -> bool {
    facts.clock.since(sent.at) > facts.clock.limits().read_back
}

fn send(seen: &AgentApiSeen) -> TaskStep {
    TaskStep::Send { channel: Channel::AgentApi, base: last_id(&seen.messages) }
}

fn take(base: Option<i64>) -> TaskStep {
    TaskStep::MarkDelivered { channel: Channel::AgentApi, base }
}

/// Our message among those after its send.
fn own_message<'a>(
    task: &Task,
    messages: &'a [MessageSeen],
    sent: Option<&Sending>,
) -> Option<&'a MessageSeen> {
    let is_ours = |message: &&MessageSeen| {
        let is_later =
            sent.is_none_or(|sent| Some(message.id) > sent.base && message.time >= sent.at - CLOCK_SKEW);
        message.role == Speaker::User && is_later && is_same_text(&message.content, &task.entry.message)
    };
    messages.iter().find(is_ours)
}

/// Terminals may change the whitespace of input.
fn is_same_text(shown: &str, sent: &str) -> bool {
    shown.split_whitespace().eq(sent.split_whitespace())
}

fn last_id(messages: &[MessageSeen]) -> Option<i64> {
    messages.iter().map(|message| message.id).max()
}
