//! The next step of a task, derived from its record and the agent's current state.
//!
//! The planner has no memory: after a kill at any point it continues from the record. A message to our runner may be
//! repeated, since the runner runs each task once. Any other AgentAPI gets a text at most once: after an unclear
//! response the conversation is read back, and a text that is not found is not sent again.
//!
//! Each channel has its own file with the steps of a delivery. The end of a task and the effect of a claim are the
//! same for all channels.

mod agent_api;
mod ending;
mod escalation;
mod exec;
mod reports;
mod runner;

use chrono::{DateTime, Utc};

use super::app::{AppSeen, TurnState};
use super::clock::Clock;
use super::status::ReportSeen;
use super::task::{Channel, Delivery, EndState, Escalation, Sending, Task};
pub use ending::{cancel_reason, ending};
use ending::{canceled_unsent, cut_short, end};
use escalation::escalate;
pub use runner::{interrupt_key, is_over};

/// The input of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub task: &'a Task,
    pub reach: Reach,
    /// The generation of the running workspace.
    pub generation: i64,
    /// The earliest build from which on every build up to this generation is a start.
    pub unstopped_since: i64,
    pub app: &'a AppSeen,
    /// The newest report of this generation.
    pub report: Option<&'a ReportSeen>,
    /// Since when the agent is idle without any message.
    pub quiet_since: Option<DateTime<Utc>>,
    /// Since when it is being interrupted.
    pub interrupting_since: Option<DateTime<Utc>>,
    /// The run that executes the task in a workspace without an app.
    pub run: Option<&'a TurnState>,
    /// The result of signals to its processes.
    pub signaling: Option<Signaling>,
    pub clock: &'a Clock,
}

/// Signals to the engine's processes, sent because the runner does not react.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signaling {
    pub since: DateTime<Utc>,
    /// No process of the engine runs.
    pub are_gone: bool,
}

/// Whether the agent can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Ready,
    /// Temporarily unreachable.
    Away,
    /// Its workspace is stopped: no process runs.
    Down,
    /// Its last start failed: no process runs until another start.
    Broken,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskStep {
    /// Wait for another observation.
    Wait,
    /// Record the send, then send the text.
    Send {
        channel: Channel,
        base: Option<i64>,
    },
    /// Record the delivery.
    MarkDelivered {
        channel: Channel,
        base: Option<i64>,
    },
    /// Park the task until this time.
    Park {
        until: DateTime<Utc>,
        reason: String,
    },
    /// Record the next attempt.
    Resume {
        reason: &'static str,
        redelivery: Redelivery,
    },
    /// Interrupt the agent, then observe again.
    Interrupt,
    /// Terminate its processes, since the runner does not.
    Signal,
    /// Stop the workspace as the last resort.
    StopWorkspace,
    End(Ending),
}

/// The message of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivery {
    /// The whole text of the task.
    FullText,
    /// A short message, in the session that has the text.
    Continue,
}

/// How a task ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub state: EndState,
    pub outcome: Option<String>,
    pub needs_answer: bool,
    /// The step that ended a canceled task.
    pub reached: Escalation,
}

pub fn plan(facts: &Facts<'_>) -> TaskStep {
    if facts.task.state().is_ended() {
        return TaskStep::Wait;
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
            Delivery::Delivered { channel, base, .. } => plan_taken(facts, channel, base),
        },
    }
}

/// A parked turn has ended, so it needs no interrupt.
fn plan_parked(facts: &Facts<'_>, until: DateTime<Utc>) -> TaskStep {
    match facts.task.work.cancel {
        Some(cancel) => {
            let outcome = cancel_reason(cancel.cause, "it was waiting for its usage limit to reset", "");
            end(EndState::Canceled, Some(&outcome))
        }
        None if facts.clock.now() >= until && facts.reach == Reach::Ready => {
            TaskStep::Resume { reason: "the usage limit has reset", redelivery: Redelivery::FullText }
        }
        None => TaskStep::Wait,
    }
}

/// The workspace stopped: its runner's task is parked, and an unsent task waits for the next start.
fn plan_down(facts: &Facts<'_>) -> TaskStep {
    let work = &facts.task.work;
    match facts.task.delivery() {
        Delivery::Unsent => wait_or_cancel(facts),
        // Only the runner's journal shows whether it arrived; the runner answers after its start.
        Delivery::Sending(Sending { channel: Channel::Runner, .. }) if work.cancel.is_none() => {
            TaskStep::Wait
        }
        Delivery::Delivered { channel: Channel::Runner, .. }
            if work.cancel.is_none() && ending::claim(facts).is_none() =>
        {
            TaskStep::Wait
        }
        Delivery::Sending { .. } | Delivery::Delivered { .. } => {
            let stopped = "the workspace was stopped";
            let outcome = work
                .cancel
                .map_or_else(|| stopped.to_owned(), |cancel| cancel_reason(cancel.cause, stopped, stopped));
            cut_short(
                facts,
                Ending { reached: Escalation::Stop, ..ending(EndState::Canceled, Some(&outcome)) },
            )
        }
    }
}

/// A start failed. If all builds since the start that the task ran in are starts, no build stopped that start's runner: it
/// died, and the task's work with it. A stop in between has parked the task, which waits for the next start.
fn plan_broken(facts: &Facts<'_>) -> TaskStep {
    let has_died = (facts.unstopped_since..facts.generation).contains(&facts.task.entry.generation);
    match facts.task.delivery() {
        Delivery::Delivered { channel: Channel::Runner, .. } if has_died => ending::runner_died(facts),
        Delivery::Unsent | Delivery::Sending { .. } | Delivery::Delivered { .. } => plan_unseen(facts),
    }
}

fn plan_unseen(facts: &Facts<'_>) -> TaskStep {
    match facts.task.delivery() {
        Delivery::Unsent => wait_or_cancel(facts),
        Delivery::Sending { .. } | Delivery::Delivered { .. } => continue_or_escalate(facts),
    }
}

/// The agent cannot be reached; a task that must be delivered waits.
fn wait_or_cancel(facts: &Facts<'_>) -> TaskStep {
    let is_withdrawn = facts.task.work.cancel.is_some() && !facts.task.must_be_delivered();
    if is_withdrawn { canceled_unsent(facts) } else { TaskStep::Wait }
}

fn plan_unsent(facts: &Facts<'_>) -> TaskStep {
    if facts.task.work.cancel.is_some() && !facts.task.must_be_delivered() {
        return canceled_unsent(facts);
    }
    match facts.app {
        AppSeen::Unasked | AppSeen::Silent { .. } => TaskStep::Wait,
        // The workspace may still start the agent's app.
        AppSeen::Foreign if !is_quiet(facts) => TaskStep::Wait,
        AppSeen::Absent | AppSeen::Foreign if facts.task.is_prompt() => reports::unsent(facts),
        AppSeen::Absent | AppSeen::Foreign => TaskStep::Send { channel: Channel::Exec, base: None },
        AppSeen::Runner(seen) => runner::unsent(facts, seen),
        AppSeen::AgentApi(seen) => agent_api::unsent(facts, seen),
    }
}

fn plan_sending(facts: &Facts<'_>, sent: Sending) -> TaskStep {
    match (facts.app, sent.channel) {
        (_, Channel::Exec) => exec::sending(facts),
        (AppSeen::Runner(seen), Channel::Runner) => runner::sending(facts, seen, sent),
        (AppSeen::AgentApi(seen), Channel::AgentApi) => agent_api::sending(facts, seen, sent),
        (_, Channel::AgentApi) => agent_api::sending_unseen(facts, sent),
        (_, Channel::Runner | Channel::Reports) => continue_or_escalate(facts),
    }
}

fn plan_taken(facts: &Facts<'_>, channel: Channel, base: Option<i64>) -> TaskStep {
    match (facts.app, channel) {
        (_, Channel::Exec) => exec::taken(facts),
        (AppSeen::Runner(seen), Channel::Runner) => runner::taken(facts, seen),
        (_, Channel::Runner) => continue_or_escalate(facts),
        (_, Channel::AgentApi | Channel::Reports) if facts.task.entry.generation != facts.generation => {
            let outcome = "the agent was restarted during the task; it is not delivered again";
            cut_short(facts, ending(EndState::Failed, Some(outcome)))
        }
        (AppSeen::AgentApi(seen), Channel::AgentApi) => agent_api::taken(facts, seen, base),
        (_, Channel::AgentApi | Channel::Reports) => reports::taken(facts, channel),
    }
}

/// Sends one text at a time: a busy agent finishes first, or is interrupted for an urgent task.
fn when_free(facts: &Facts<'_>, is_stable: bool, send: TaskStep) -> TaskStep {
    match is_stable {
        true => send,
        false if facts.task.work.is_urgent => TaskStep::Interrupt,
        false => TaskStep::Wait,
    }
}

/// Waits, or escalates if the task is to end.
fn continue_or_escalate(facts: &Facts<'_>) -> TaskStep {
    escalate(facts).unwrap_or(TaskStep::Wait)
}

fn is_quiet(facts: &Facts<'_>) -> bool {
    facts.quiet_since.is_some_and(|since| facts.clock.since(since) >= facts.clock.limits().spec_grace)
}

#[cfg(test)]
mod claim_tests;
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
