//! The next step of a task, decided from what was recorded and what the agent shows now.
//!
//! The planner has no memory: killed at any point and asked again, it goes on from the record. With our own runner a
//! message may be sent again, since the runner takes each task once. Any other AgentAPI gets a text at most once:
//! after an unclear answer the conversation is read back, and what never shows up is not sent again.
//!
//! Each way into a workspace has a file of its own that tells how far a task has come there. How a task ends, and what
//! the agent's own word counts for, is one rule for all of them.

mod agent_api;
mod ending;
mod exec;
mod ladder;
mod reports;
mod runner;

use chrono::{DateTime, Utc};

use super::app::{AppSeen, TurnState};
use super::clock::Clock;
use super::status::ReportSeen;
use super::task::{Channel, Delivery, EndState, Reached, Sending, Task};
use ending::{canceled_unsent, cut_short, end};
pub use ending::{ending, why};
use ladder::ladder;
pub use runner::{interrupt_key, is_over};

/// Everything a decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub task: &'a Task,
    pub reach: Reach,
    /// Of the workspace as it runs now.
    pub generation: i64,
    pub app: &'a AppSeen,
    /// The newest report of this generation.
    pub report: Option<&'a ReportSeen>,
    /// Since when the agent waits for input without anything having been said.
    pub quiet_since: Option<DateTime<Utc>>,
    /// Since when it is being asked to stop; none before the first time.
    pub interrupting_since: Option<DateTime<Utc>>,
    /// The run that does it, where the workspace has no app to tell.
    pub run: Option<&'a TurnState>,
    /// What came of signals to its processes; none before the first.
    pub signaling: Option<Signaling>,
    pub clock: &'a Clock,
}

/// Signals were sent past a runner that does not listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signaling {
    pub since: DateTime<Utc>,
    /// Nothing of the engine runs any more.
    pub are_gone: bool,
}

/// Can the agent be talked to?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Ready,
    /// Not now, and that will change.
    Away,
    /// Its workspace is down: nothing runs in it.
    Down,
    /// Its newest start has failed: nothing runs in it, and nothing will before another start.
    Broken,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing until something else is seen.
    Wait,
    /// Record the intent, then send the text.
    Send {
        channel: Channel,
        base: Option<i64>,
    },
    /// Record that the agent has it.
    Take {
        channel: Channel,
        base: Option<i64>,
    },
    /// Record that it may not go on before this time.
    Park {
        until: DateTime<Utc>,
        reason: String,
    },
    /// Record that it is to be told again.
    Resume {
        reason: &'static str,
        again: Again,
    },
    /// Ask the agent to stop what it is doing, then look again.
    Interrupt,
    /// End its processes, since the runner does not.
    Signal,
    /// Stop the workspace, since nothing else helped.
    StopWorkspace,
    End(Ending),
}

/// What an agent is told of a task that was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// The whole text.
    Whole,
    /// To go on, in a session that knows the text.
    GoOn,
}

/// How a task ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub state: EndState,
    pub outcome: Option<String>,
    pub needs_answer: bool,
    /// How far a cancel had to go, where there was one.
    pub reached: Reached,
}

pub fn plan(facts: &Facts<'_>) -> Step {
    if facts.task.state().is_ended() {
        return Step::Wait;
    }
    if let Some(until) = facts.task.work.parked_until {
        return plan_parked(facts, until);
    }
    match facts.reach {
        Reach::Down => plan_down(facts),
        Reach::Away => plan_unseen(facts),
        Reach::Broken => plan_broken(facts),
        Reach::Ready => match facts.task.delivery() {
            Delivery::Unsent => plan_unsent(facts),
            Delivery::Sending(sent) => plan_sending(facts, sent),
            Delivery::Taken { channel, base, .. } => plan_taken(facts, channel, base),
        },
    }
}

/// Only what has ended is parked, so there is nothing to interrupt.
fn plan_parked(facts: &Facts<'_>, until: DateTime<Utc>) -> Step {
    match facts.task.work.cancel {
        Some(cancel) => {
            let outcome = why(cancel.cause, "it was waiting for its usage limit to reset", "");
            end(EndState::Canceled, Some(&outcome))
        }
        None if facts.clock.now() >= until && facts.reach == Reach::Ready => {
            Step::Resume { reason: "the usage limit has reset", again: Again::Whole }
        }
        None => Step::Wait,
    }
}

/// The workspace stopped: what our runner has is parked with it, and what was not sent waits for the next start.
fn plan_down(facts: &Facts<'_>) -> Step {
    let work = &facts.task.work;
    match facts.task.delivery() {
        Delivery::Unsent => unsent_away(facts),
        // The runner has it in its journal or not at all; it tells when it is back.
        Delivery::Sending(Sending { channel: Channel::Runner, .. }) if work.cancel.is_none() => Step::Wait,
        Delivery::Taken { channel: Channel::Runner, .. }
            if work.cancel.is_none() && ending::claim(facts).is_none() =>
        {
            Step::Wait
        }
        Delivery::Sending { .. } | Delivery::Taken { .. } => {
            let stopped = "the workspace was stopped";
            let outcome =
                work.cancel.map_or_else(|| stopped.to_owned(), |cancel| why(cancel.cause, stopped, stopped));
            cut_short(facts, Ending { reached: Reached::Stop, ..ending(EndState::Canceled, Some(&outcome)) })
        }
    }
}

/// A start failed. Where it came right behind the start that the task ran in, nothing stopped the runner before: it died,
/// and what it did died with it. A stop in between has parked the task, which waits for the next start.
fn plan_broken(facts: &Facts<'_>) -> Step {
    let has_died = facts.generation == facts.task.entry.generation + 1;
    match facts.task.delivery() {
        Delivery::Taken { channel: Channel::Runner, .. } if has_died => ending::runner_died(facts),
        Delivery::Unsent | Delivery::Sending { .. } | Delivery::Taken { .. } => plan_unseen(facts),
    }
}

fn plan_unseen(facts: &Facts<'_>) -> Step {
    match facts.task.delivery() {
        Delivery::Unsent => unsent_away(facts),
        Delivery::Sending { .. } | Delivery::Taken { .. } => keep_on(facts),
    }
}

/// The agent cannot be told now. What it must have in any case waits for it.
fn unsent_away(facts: &Facts<'_>) -> Step {
    let is_withdrawn = facts.task.work.cancel.is_some() && !facts.task.is_owed();
    if is_withdrawn { canceled_unsent(facts) } else { Step::Wait }
}

fn plan_unsent(facts: &Facts<'_>) -> Step {
    if facts.task.work.cancel.is_some() && !facts.task.is_owed() {
        return canceled_unsent(facts);
    }
    match facts.app {
        AppSeen::Unasked | AppSeen::Silent { .. } => Step::Wait,
        // What answers now may not be all that ever will.
        AppSeen::Foreign if !is_quiet(facts) => Step::Wait,
        AppSeen::Absent | AppSeen::Foreign if facts.task.is_prompt() => reports::unsent(facts),
        AppSeen::Absent | AppSeen::Foreign => Step::Send { channel: Channel::Exec, base: None },
        AppSeen::Runner(seen) => runner::unsent(facts, seen),
        AppSeen::AgentApi(seen) => agent_api::unsent(facts, seen),
    }
}

fn plan_sending(facts: &Facts<'_>, sent: Sending) -> Step {
    match (facts.app, sent.channel) {
        (_, Channel::Exec) => exec::sending(facts),
        (AppSeen::Runner(seen), Channel::Runner) => runner::sending(facts, seen, sent),
        (AppSeen::AgentApi(seen), Channel::AgentApi) => agent_api::sending(facts, seen, sent),
        (_, Channel::AgentApi) => agent_api::sending_unseen(facts, sent),
        (_, Channel::Runner | Channel::Reports) => keep_on(facts),
    }
}

fn plan_taken(facts: &Facts<'_>, channel: Channel, base: Option<i64>) -> Step {
    match (facts.app, channel) {
        (_, Channel::Exec) => exec::taken(facts),
        (AppSeen::Runner(seen), Channel::Runner) => runner::taken(facts, seen),
        (_, Channel::Runner) => keep_on(facts),
        (_, Channel::AgentApi | Channel::Reports) if facts.task.entry.generation != facts.generation => {
            let outcome = "the agent was restarted during the task; it is not delivered again";
            cut_short(facts, ending(EndState::Failed, Some(outcome)))
        }
        (AppSeen::AgentApi(seen), Channel::AgentApi) => agent_api::taken(facts, seen, base),
        (_, Channel::AgentApi | Channel::Reports) => reports::taken(facts, channel),
    }
}

/// One text at a time: a busy agent is waited for, or interrupted for an urgent task.
fn when_free(facts: &Facts<'_>, is_stable: bool, send: Step) -> Step {
    match is_stable {
        true => send,
        false if facts.task.work.is_urgent => Step::Interrupt,
        false => Step::Wait,
    }
}

/// It goes on, unless it is to be ended.
fn keep_on(facts: &Facts<'_>) -> Step {
    ladder(facts).unwrap_or(Step::Wait)
}

fn is_quiet(facts: &Facts<'_>) -> bool {
    facts.quiet_since.is_some_and(|since| facts.clock.since(since) >= facts.clock.limits().spec_grace)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod order_model;
#[cfg(test)]
mod question_tests;
#[cfg(test)]
mod stop_tests;
#[cfg(test)]
mod tests;
