//! Tasks for any other AgentAPI, which knows texts only: told at most once, read back by text and time.

use chrono::TimeDelta;

use super::ending::{self, claimed, interrupted, limited, lost};
use super::{Facts, Step, is_quiet, keep_on, when_free};
use crate::domain::app::{AgentApiSeen, MessageSeen, Speaker};
use crate::domain::task::{Channel, Sending, Task};
use crate::domain::usage_limit::{self, Limit};
use crate::domain::words::AppState;

/// Clocks of the workspace and ours may differ by this much.
const CLOCK_SKEW: TimeDelta = TimeDelta::seconds(120);

pub(super) fn unsent(facts: &Facts<'_>, seen: &AgentApiSeen) -> Step {
    if facts.task.is_prompt() {
        return spec(facts, seen);
    }
    when_free(facts, seen.is_stable, send(seen))
}

/// A template may give the spec to its agent as a text, or in a way that no message shows.
fn spec(facts: &Facts<'_>, seen: &AgentApiSeen) -> Step {
    if let Some(message) = own_message(facts.task, &seen.messages, None) {
        return take(Some(message.id));
    }
    let was_asked = seen.messages.iter().any(|message| message.role == Speaker::User);
    let is_at_work = facts.report.is_some_and(|report| report.state != AppState::Idle);
    match (seen.is_stable, is_quiet(facts)) {
        (_, _) if is_at_work && !was_asked => take(last_id(&seen.messages)),
        (true, true) => send(seen),
        (false, true) if !was_asked => take(last_id(&seen.messages)),
        (true | false, _) => Step::Wait,
    }
}

/// Did the text arrive? It shows among the messages, or in what the agent does since.
pub(super) fn sending(facts: &Facts<'_>, seen: &AgentApiSeen, sent: Sending) -> Step {
    if let Some(message) = own_message(facts.task, &seen.messages, Some(&sent)) {
        return take(Some(message.id));
    }
    let has_moved = !seen.is_stable || last_id(&seen.messages) > sent.base;
    if sent.is_answered && has_moved {
        return take(sent.base);
    }
    if is_lost(facts, sent) || facts.task.entry.generation != facts.generation {
        lost(facts)
    } else {
        Step::Wait
    }
}

pub(super) fn sending_unseen(facts: &Facts<'_>, sent: Sending) -> Step {
    if is_lost(facts, sent) { lost(facts) } else { keep_on(facts) }
}

/// Stable again after ours means that the agent is through with it; its own word says how it went, else its answer.
pub(super) fn taken(facts: &Facts<'_>, seen: &AgentApiSeen, base: Option<i64>) -> Step {
    if !seen.is_stable {
        return keep_on(facts);
    }
    let answer = seen.messages.iter().rev().find(|m| m.role == Speaker::Agent && Some(m.id) > base);
    match (ending::claim(facts), answer) {
        (None, None) => keep_on(facts),
        (Some(_), _) | (_, Some(_)) if was_interrupted(facts) => interrupted(facts),
        (Some(claim), _) => claimed(facts, &claim),
        (None, Some(answer)) => answered(facts, answer.content.trim()),
    }
}

/// AgentAPI has no word for a failure: a usage limit shows in that the answer says nothing else.
fn answered(facts: &Facts<'_>, text: &str) -> Step {
    match usage_limit::read_notice(text, facts.clock.now()) {
        Limit::None => ending::answered(text),
        limit @ (Limit::Open | Limit::Until(_)) => limited(facts, limit, text),
    }
}

/// Did it stop because we asked? One that was through before we could ask is not late, however late we look.
fn was_interrupted(facts: &Facts<'_>) -> bool {
    facts.task.work.cancel.is_some() || (facts.task.is_late() && facts.interrupting_since.is_some())
}

fn is_lost(facts: &Facts<'_>, sent: Sending) -> bool {
    facts.clock.since(sent.at) > facts.clock.limits().read_back
}

fn send(seen: &AgentApiSeen) -> Step {
    Step::Send { channel: Channel::AgentApi, base: last_id(&seen.messages) }
}

fn take(base: Option<i64>) -> Step {
    Step::Take { channel: Channel::AgentApi, base }
}

/// Our text among the messages, from after it was sent.
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

/// A terminal may change spaces and line breaks of what is typed into it.
fn is_same_text(shown: &str, sent: &str) -> bool {
    shown.split_whitespace().eq(sent.split_whitespace())
}

fn last_id(messages: &[MessageSeen]) -> Option<i64> {
    messages.iter().map(|message| message.id).max()
}
