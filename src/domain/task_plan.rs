//! The next step of a task, decided from what was recorded and what the agent shows now.
//!
//! The planner has no memory: killed at any point and asked again, it goes on from the record. With our own runner a
//! message may be sent again, since the runner takes each task once. Any other AgentAPI gets a text at most once:
//! after an unclear answer the conversation is read back, and what never shows up is not sent again.

use chrono::{DateTime, TimeDelta, Utc};

use super::app::{AgentApiSeen, AppSeen, MessageSeen, RunnerSeen, Speaker, TurnEnd, TurnSeen, TurnState};
use super::status::ReportSeen;
use super::task::{Channel, Claim, ClaimKind, Delivery, Reached, Task, TaskOrigin, TaskState};
use super::task_ladder::{SIGNALED, ladder};
use super::usage_limit::{self, Limit};
use super::words::AppState;

/// An agent that starts with a spec shows it within this time, or has to be told.
pub const SPEC_GRACE: TimeDelta = TimeDelta::seconds(5);
/// A text that was sent and shows nowhere after this time is lost.
pub const READ_BACK: TimeDelta = TimeDelta::seconds(35);
/// After an agent's claim its run may go on for a moment, and what it did can be verified only then.
pub const CLAIM_GRACE: TimeDelta = TimeDelta::seconds(10);
/// Clocks of the workspace and ours may differ by this much.
const CLOCK_SKEW: TimeDelta = TimeDelta::seconds(120);

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
    pub now: DateTime<Utc>,
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
    },
    /// Ask the agent to stop what it is doing, then look again.
    Interrupt,
    /// End its processes, since the runner does not.
    Signal,
    /// Stop the workspace, since nothing else helped.
    StopWorkspace,
    End(Ending),
}

/// How a task ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub state: TaskState,
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
        Reach::Ready => match facts.task.work.delivery {
            Delivery::Unsent => plan_unsent(facts),
            Delivery::Sending { channel, at, base, is_answered } => {
                plan_sending(facts, channel, Sent { at, base, is_answered })
            }
            Delivery::Taken { channel, at, base } => plan_taken(facts, channel, at, base),
        },
    }
}

/// Turns of tasks that have ended for us and yet run: a message that came late, or a cancel that was not heard.
pub fn strays(seen: &RunnerSeen, is_over: impl Fn(&str) -> bool) -> impl Iterator<Item = &TurnSeen> {
    let running = seen.turns.iter().filter(|turn| !turn.is_ended());
    running.filter(move |turn| turn.key.as_deref().is_some_and(&is_over))
}

/// A message that was sent.
#[derive(Clone, Copy)]
struct Sent {
    at: DateTime<Utc>,
    base: Option<i64>,
    is_answered: bool,
}

fn plan_parked(facts: &Facts<'_>, until: DateTime<Utc>) -> Step {
    match facts.task.work.cancel {
        Some(_) => end(TaskState::Canceled, Some("it was waiting for its usage limit to end")),
        None if facts.now >= until && facts.reach == Reach::Ready => {
            Step::Resume { reason: "the usage limit is over" }
        }
        None => Step::Wait,
    }
}

/// The workspace stopped: what ran in it has ended, what was not sent waits for the next start.
fn plan_down(facts: &Facts<'_>) -> Step {
    let work = &facts.task.work;
    match work.delivery {
        Delivery::Unsent if work.cancel.is_some() => canceled_unsent(),
        Delivery::Unsent => Step::Wait,
        // The runner has it in its journal or not at all; it tells when it is back.
        Delivery::Sending { channel: Channel::Runner, .. } if work.cancel.is_none() => Step::Wait,
        Delivery::Sending { .. } | Delivery::Taken { .. } => Step::End(Ending {
            reached: Reached::Stop,
            ..ending(TaskState::Canceled, Some("the workspace was stopped"))
        }),
    }
}

fn plan_unseen(facts: &Facts<'_>) -> Step {
    match (facts.task.work.delivery, facts.task.work.cancel) {
        (Delivery::Unsent, Some(_)) => canceled_unsent(),
        (Delivery::Unsent, None) => Step::Wait,
        (Delivery::Sending { .. } | Delivery::Taken { .. }, _) => ladder(facts).unwrap_or(Step::Wait),
    }
}

fn plan_unsent(facts: &Facts<'_>) -> Step {
    if facts.task.work.cancel.is_some() {
        return canceled_unsent();
    }
    let is_first = facts.task.work.origin == TaskOrigin::Spec && facts.task.work.attempt == 1;
    match facts.app {
        AppSeen::Unasked | AppSeen::Silent { .. } => Step::Wait,
        // What answers now may not be all that ever will.
        AppSeen::Foreign if !is_quiet(facts) => Step::Wait,
        AppSeen::Absent | AppSeen::Foreign if is_first => spec_by_reports(facts),
        AppSeen::Absent | AppSeen::Foreign => Step::Send { channel: Channel::Exec, base: None },
        AppSeen::Runner(seen) => unsent_to_runner(facts, seen, is_first),
        AppSeen::AgentApi(seen) if is_first => spec_in_agent_api(facts, seen),
        AppSeen::AgentApi(seen) => when_free(facts, seen.is_stable, Channel::AgentApi),
    }
}

fn unsent_to_runner(facts: &Facts<'_>, seen: &RunnerSeen, is_first: bool) -> Step {
    match turn_of(facts.task, seen) {
        Some(_) => Step::Take { channel: Channel::Runner, base: None },
        None if is_first && !is_quiet(facts) => Step::Wait,
        None => when_free(facts, seen.is_stable, Channel::Runner),
    }
}

/// A template may give the spec to its agent as a text, or in a way that no message shows.
fn spec_in_agent_api(facts: &Facts<'_>, seen: &AgentApiSeen) -> Step {
    let take = |base| Step::Take { channel: Channel::AgentApi, base };
    if let Some(message) = own_message(facts.task, &seen.messages, None) {
        return take(Some(message.id));
    }
    let was_asked = seen.messages.iter().any(|message| message.role == Speaker::User);
    let is_at_work = facts.report.is_some_and(|report| report.state != AppState::Idle);
    match (seen.is_stable, is_quiet(facts)) {
        (_, _) if is_at_work && !was_asked => take(last_id(&seen.messages)),
        (true, true) => Step::Send { channel: Channel::AgentApi, base: last_id(&seen.messages) },
        (false, true) if !was_asked => take(last_id(&seen.messages)),
        (true | false, _) => Step::Wait,
    }
}

fn spec_by_reports(facts: &Facts<'_>) -> Step {
    match facts.report.map(|report| &report.state) {
        Some(AppState::Working | AppState::Complete | AppState::Failure) => {
            Step::Take { channel: Channel::Reports, base: None }
        }
        Some(AppState::Idle | AppState::Unknown(_)) | None if is_quiet(facts) => end(
            TaskState::Done,
            Some("given to the workspace as its prompt; nothing tells what became of it"),
        ),
        Some(AppState::Idle | AppState::Unknown(_)) | None => Step::Wait,
    }
}

/// One text at a time: a busy agent is waited for, or interrupted for an urgent task.
fn when_free(facts: &Facts<'_>, is_stable: bool, channel: Channel) -> Step {
    match (is_stable, channel) {
        (true, Channel::AgentApi) => Step::Send { channel, base: last_id(facts.app.messages()) },
        (true, Channel::Runner | Channel::Reports | Channel::Exec) => Step::Send { channel, base: None },
        (false, _) if facts.task.work.is_urgent => Step::Interrupt,
        (false, _) => Step::Wait,
    }
}

fn plan_sending(facts: &Facts<'_>, channel: Channel, sent: Sent) -> Step {
    match (facts.app, channel) {
        (_, Channel::Exec) => match facts.run {
            Some(_) => Step::Take { channel, base: None },
            None if facts.task.work.cancel.is_some() => canceled_unsent(),
            None => Step::Send { channel, base: None },
        },
        (AppSeen::Runner(seen), Channel::Runner) => match turn_of(facts.task, seen) {
            Some(_) => Step::Take { channel, base: None },
            None if facts.task.work.cancel.is_some() => canceled_unsent(),
            None if !remembers(facts, seen, sent.at) => lost(),
            None => Step::Send { channel, base: None },
        },
        (AppSeen::AgentApi(seen), Channel::AgentApi) => read_back(facts, seen, sent),
        (_, Channel::AgentApi) if facts.now - sent.at > READ_BACK => lost(),
        (_, _) => ladder(facts).unwrap_or(Step::Wait),
    }
}

/// Would the runner know the task if it had come? Not if it has lost its journal since, as a workspace without a
/// lasting home does at each start.
fn remembers(facts: &Facts<'_>, seen: &RunnerSeen, sent_at: DateTime<Utc>) -> bool {
    let is_same_start = facts.task.entry.generation == facts.generation;
    is_same_start || seen.n_forgotten > 0 || seen.turns.iter().any(|turn| turn.accepted_at < sent_at)
}

/// Did the text arrive? It shows among the messages, or in what the agent does since.
fn read_back(facts: &Facts<'_>, seen: &AgentApiSeen, sent: Sent) -> Step {
    if let Some(message) = own_message(facts.task, &seen.messages, Some(&sent)) {
        return Step::Take { channel: Channel::AgentApi, base: Some(message.id) };
    }
    let has_moved = !seen.is_stable || last_id(&seen.messages) > sent.base;
    if sent.is_answered && has_moved {
        return Step::Take { channel: Channel::AgentApi, base: sent.base };
    }
    if facts.now - sent.at > READ_BACK || facts.task.entry.generation != facts.generation {
        return lost();
    }
    Step::Wait
}

fn plan_taken(facts: &Facts<'_>, channel: Channel, at: DateTime<Utc>, base: Option<i64>) -> Step {
    match (facts.app, channel) {
        (AppSeen::Runner(seen), Channel::Runner) => match turn_of(facts.task, seen) {
            Some(turn) => by_turn(facts, &turn.state),
            None => end(TaskState::Failed, Some("the agent no longer knows this task")),
        },
        (_, Channel::Runner) => ladder(facts).unwrap_or(Step::Wait),
        (_, Channel::Exec) => match facts.run {
            Some(state) => by_turn(facts, state),
            None => end(TaskState::Failed, Some("nothing is known of the run that did it")),
        },
        (_, Channel::AgentApi | Channel::Reports) if facts.task.entry.generation != facts.generation => {
            end(TaskState::Failed, Some("the agent was restarted in the middle of it; it is not told again"))
        }
        (AppSeen::AgentApi(seen), Channel::AgentApi) => by_messages(facts, seen, at, base),
        (_, Channel::AgentApi | Channel::Reports) => by_report(facts, at).unwrap_or_else(|| keep_on(facts)),
    }
}

fn by_turn(facts: &Facts<'_>, state: &TurnState) -> Step {
    let TurnState::Ended(outcome) = state else { return keep_on(facts) };
    let claim = facts.task.work.claim.as_ref();
    match outcome {
        TurnEnd::Complete { text } => match claim {
            Some(claim) => claimed(facts, claim),
            None => end(TaskState::Done, Some(text)),
        },
        TurnEnd::Question { text } => asked(text),
        // Its engine fell by our own hand.
        TurnEnd::Failed { .. } if facts.task.work.reached == Reached::Signals => interrupted(facts),
        TurnEnd::Failed { text } => failed(facts, text),
        TurnEnd::Interrupted => interrupted(facts),
        TurnEnd::Stopped => end(TaskState::Canceled, Some("the workspace was stopped in the middle of it")),
        TurnEnd::Crashed => {
            end(TaskState::Failed, Some("the agent's runner ended in the middle of it; it is not run again"))
        }
        TurnEnd::Unbegun if facts.task.work.cancel.is_some() => canceled_unsent(),
        TurnEnd::Unbegun => Step::Resume { reason: "the server stopped before it was begun" },
        TurnEnd::Forgotten => end(
            TaskState::Failed,
            Some("the agent was through with it and no longer knows how it went; it is not run again"),
        ),
        TurnEnd::Unknown { word } => {
            end(TaskState::Failed, Some(&format!("it ended in a way we do not know: {word}")))
        }
    }
}

/// Stable again after ours means that the agent is through with it; its report says how it went.
fn by_messages(facts: &Facts<'_>, seen: &AgentApiSeen, at: DateTime<Utc>, base: Option<i64>) -> Step {
    if let Some(step) = by_report(facts, at) {
        return step;
    }
    let answer = seen.messages.iter().rev().find(|m| m.role == Speaker::Agent && Some(m.id) > base);
    match answer {
        Some(_) if seen.is_stable && facts.task.work.cancel.is_some() => interrupted(facts),
        Some(answer) if seen.is_stable => match usage_limit::read(&answer.content, facts.now) {
            Limit::None | Limit::Open => end(TaskState::Done, Some(answer.content.trim())),
            Limit::Until(until) => Step::Park { until, reason: answer.content.trim().to_owned() },
        },
        Some(_) | None => keep_on(facts),
    }
}

/// A report from before the task, or from before the agent took it, says nothing of it.
fn by_report(facts: &Facts<'_>, taken_at: DateTime<Utc>) -> Option<Step> {
    let since =
        if facts.task.work.origin == TaskOrigin::Spec { facts.task.entry.created_at } else { taken_at };
    let report = facts.report.filter(|report| report.at >= since)?;
    match report.state {
        AppState::Complete => Some(end(TaskState::Done, Some(&report.message))),
        AppState::Failure => Some(failed(facts, &report.message)),
        AppState::Idle if report.needs_answer => Some(asked(&report.message)),
        AppState::Idle if facts.app.has_no_agent() => Some(end(TaskState::Done, Some(&report.message))),
        AppState::Idle | AppState::Working | AppState::Unknown(_) => None,
    }
}

/// It works: somebody may want it ended, or it says itself that it is through.
fn keep_on(facts: &Facts<'_>) -> Step {
    if let Some(step) = ladder(facts) {
        return step;
    }
    // A run is seen to end, and another one must not begin beside it.
    let is_run = facts.task.channel() == Some(Channel::Exec);
    match &facts.task.work.claim {
        Some(claim) if facts.now - claim.at >= CLAIM_GRACE && !is_run => claimed(facts, claim),
        Some(_) | None => Step::Wait,
    }
}

fn claimed(facts: &Facts<'_>, claim: &Claim) -> Step {
    match claim.kind {
        ClaimKind::Complete => end(TaskState::Done, Some(&claim.text)),
        ClaimKind::Failure => failed(facts, &claim.text),
        ClaimKind::Question => asked(&claim.text),
    }
}

fn failed(facts: &Facts<'_>, text: &str) -> Step {
    match usage_limit::read(text, facts.now) {
        Limit::Until(until) if facts.task.work.cancel.is_none() => {
            Step::Park { until, reason: text.to_owned() }
        }
        Limit::Until(_) | Limit::Open | Limit::None => end(TaskState::Failed, Some(text)),
    }
}

fn asked(text: &str) -> Step {
    Step::End(Ending { needs_answer: true, ..ending(TaskState::Done, Some(text)) })
}

fn interrupted(facts: &Facts<'_>) -> Step {
    let is_late = facts.task.deadline().is_some_and(|deadline| facts.now >= deadline);
    let (state, outcome) = match facts.task.work.cancel {
        Some(_) if facts.task.work.reached == Reached::Signals => (TaskState::Canceled, SIGNALED),
        Some(_) => (TaskState::Canceled, "it was interrupted as asked"),
        None if is_late => (TaskState::TimedOut, "it took longer than it was given"),
        None => (TaskState::Canceled, "somebody interrupted it in the workspace"),
    };
    // A run has nobody to plead with: it is ended by signals.
    let is_run = facts.task.channel() == Some(Channel::Exec);
    let reached = if is_run { Reached::Signals } else { Reached::Interrupt };
    Step::End(Ending { reached, ..ending(state, Some(outcome)) })
}

fn canceled_unsent() -> Step {
    end(TaskState::Canceled, Some("it was canceled before the agent had it"))
}

fn lost() -> Step {
    end(
        TaskState::Failed,
        Some(
            "whether the message arrived cannot be told; it was not sent again, so that nothing is done twice",
        ),
    )
}

fn end(state: TaskState, outcome: Option<&str>) -> Step {
    Step::End(ending(state, outcome))
}

pub(super) fn ending(state: TaskState, outcome: Option<&str>) -> Ending {
    let outcome = outcome.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    Ending { state, outcome, needs_answer: false, reached: Reached::None }
}

/// The turn of this attempt; the first one of a spec is what the workspace started with.
fn turn_of<'a>(task: &Task, seen: &'a RunnerSeen) -> Option<&'a TurnSeen> {
    let key = task.key();
    let by_key = seen.turns.iter().find(|turn| turn.key.as_deref() == Some(key.as_str()));
    let is_first = task.work.origin == TaskOrigin::Spec && task.work.attempt == 1;
    by_key.or_else(|| seen.turns.iter().find(|turn| turn.is_prompt && is_first))
}

/// Our text among the messages, from after it was sent.
fn own_message<'a>(task: &Task, messages: &'a [MessageSeen], sent: Option<&Sent>) -> Option<&'a MessageSeen> {
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

fn is_quiet(facts: &Facts<'_>) -> bool {
    facts.quiet_since.is_some_and(|since| facts.now - since >= SPEC_GRACE)
}

#[cfg(test)]
#[path = "task_plan_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "task_plan_model.rs"]
mod model;
