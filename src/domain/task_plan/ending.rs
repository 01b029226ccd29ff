//! How tasks end, and the effect of an agent's claim.
//!
//! A claim determines the result after the turn is over, and ends nothing before that. An agent that works long after
//! its claim is interrupted, so that no engine works without a task.

use chrono::TimeDelta;

use super::escalation::SIGNALED;
use super::{Ending, Facts, Redelivery, TaskStep, reports};
use crate::domain::app::TurnEnd;
use crate::domain::question;
use crate::domain::task::{CancelCause, Channel, Claim, ClaimKind, EndState, Escalation};
use crate::domain::usage_limit::{self, Limit};

const STOPPED: &str = "interrupted: the workspace was stopped during the task, and its engine cannot resume \
    it; it is not run again";
const RUNNER_DIED: &str = "the agent's runner ended during the task; it is not run again";

/// The agent's claim. An agent without access to the fleet reports to Coder; reports of our runner only repeat its
/// turns.
pub(super) fn claim(facts: &Facts<'_>) -> Option<Claim> {
    let own = facts.task.work.claim.clone();
    match facts.task.channel() {
        Some(Channel::AgentApi | Channel::Reports) => own.or_else(|| reports::claim(facts)),
        Some(Channel::Runner | Channel::Exec) | None => own,
    }
}

/// For how long the task has exceeded its timeout or the grace period after its claim.
pub(super) fn overdue_for(facts: &Facts<'_>) -> Option<TimeDelta> {
    let grace = facts.clock.limits().claim_grace;
    let since_claim = claim(facts).map(|claim| facts.clock.since(claim.at) - grace);
    let late = facts.task.work.timeout.map(|timeout| facts.task.work.worked - timeout);
    [since_claim, late].into_iter().flatten().max().filter(|over| *over >= TimeDelta::zero())
}

/// The turn has ended with a known result.
pub(super) fn ended(facts: &Facts<'_>, turn: &TurnEnd) -> TaskStep {
    let work = &facts.task.work;
    match turn {
        TurnEnd::Complete { text } => match claim(facts) {
            Some(claim) => end_as_claimed(facts, &claim),
            None => answered(text),
        },
        TurnEnd::Question { text } => match claim(facts) {
            Some(claim) => end_as_claimed(facts, &claim),
            None => TaskStep::End(asked(text)),
        },
        // Our signals ended the engine.
        TurnEnd::Failed { .. } if work.reached == Escalation::Signals => interrupted(facts),
        TurnEnd::Failed { text } => failed(facts, text),
        TurnEnd::Interrupted => interrupted(facts),
        TurnEnd::Parked if work.cancel.is_some() => interrupted(facts),
        TurnEnd::Parked => match claim(facts) {
            Some(claim) => end_as_claimed(facts, &claim),
            None => TaskStep::Resume {
                reason: "the workspace was stopped during the task",
                redelivery: Redelivery::Continue,
            },
        },
        TurnEnd::Stopped if work.cancel.is_some() => interrupted(facts),
        TurnEnd::Stopped => cut_short(facts, ending(EndState::Canceled, Some(STOPPED))),
        TurnEnd::Crashed => runner_died(facts),
        TurnEnd::Unbegun if work.cancel.is_some() && !facts.task.must_be_delivered() => {
            canceled_unsent(facts)
        }
        TurnEnd::Unbegun => TaskStep::Resume {
            reason: "the agent was stopped before the task began",
            redelivery: Redelivery::FullText,
        },
        TurnEnd::Forgotten => {
            let outcome = "the agent finished the task and lost its result; it is not run again";
            cut_short(facts, ending(EndState::Failed, Some(outcome)))
        }
        TurnEnd::Unknown { word } => {
            end(EndState::Failed, Some(&format!("it ended with the unknown state '{word}'")))
        }
    }
}

/// The turn ended with an answer and without a claim.
pub(super) fn answered(text: &str) -> TaskStep {
    if question::is_asked(text) { TaskStep::End(asked(text)) } else { end(EndState::Done, Some(text)) }
}

/// The work was ended from outside: a claim made before counts, unless the task was canceled.
pub(super) fn cut_short(facts: &Facts<'_>, otherwise: Ending) -> TaskStep {
    match claim(facts) {
        Some(claim) if facts.task.work.cancel.is_none() => end_as_claimed(facts, &claim),
        Some(_) | None => TaskStep::End(otherwise),
    }
}

/// The task cannot continue; a canceled task does not count as failed.
pub(super) fn runner_died(facts: &Facts<'_>) -> TaskStep {
    match facts.task.work.cancel {
        Some(cancel) => end(EndState::Canceled, Some(&cancel_reason(cancel.cause, RUNNER_DIED, RUNNER_DIED))),
        None => cut_short(facts, ending(EndState::Failed, Some(RUNNER_DIED))),
    }
}

pub(super) fn interrupted(facts: &Facts<'_>) -> TaskStep {
    let is_signaled = facts.task.work.reached == Escalation::Signals;
    let (state, outcome) = match facts.task.work.cancel {
        Some(cancel) if is_signaled => (EndState::Canceled, cancel_reason(cancel.cause, SIGNALED, SIGNALED)),
        Some(cancel) => {
            (EndState::Canceled, cancel_reason(cancel.cause, "it was interrupted on request", ""))
        }
        None if facts.task.has_exceeded_timeout() => {
            (EndState::TimedOut, "it exceeded its timeout".to_owned())
        }
        None => (EndState::Canceled, "it was interrupted inside the workspace".to_owned()),
    };
    // A run cannot be interrupted by a request, only by signals.
    let is_run = facts.task.channel() == Some(Channel::Exec);
    let reached = if is_run { Escalation::Signals } else { Escalation::Interrupt };
    cut_short(facts, Ending { reached, ..ending(state, Some(&outcome)) })
}

/// The reason of a canceled task: `as_asked` for a request, else the interrupting task with `more`.
pub fn cancel_reason(cause: CancelCause, as_asked: &str, more: &str) -> String {
    match cause {
        CancelCause::Request => as_asked.to_owned(),
        CancelCause::Interrupt(by) if more.is_empty() => format!("interrupted by task {by}"),
        CancelCause::Interrupt(by) => format!("interrupted by task {by}; {more}"),
    }
}

/// The turn is over, and the claim determines the result.
pub(super) fn end_as_claimed(facts: &Facts<'_>, claim: &Claim) -> TaskStep {
    match claim.kind {
        ClaimKind::Failure => failed(facts, &claim.text),
        ClaimKind::Complete | ClaimKind::Question => TaskStep::End(ending_as_claimed(claim)),
    }
}

/// The end by a claim alone, without retries: the turn may still run, so the task must not start again.
pub(super) fn ending_as_claimed(claim: &Claim) -> Ending {
    match claim.kind {
        ClaimKind::Complete => ending(EndState::Done, Some(&claim.text)),
        ClaimKind::Failure => ending(EndState::Failed, Some(&claim.text)),
        ClaimKind::Question => asked(&claim.text),
    }
}

/// A usage limit parks the task until its reset time; without a known time the task fails.
pub(super) fn limited(facts: &Facts<'_>, limit: Limit, text: &str) -> TaskStep {
    match limit {
        Limit::Until(until) if facts.task.work.cancel.is_none() => {
            TaskStep::Park { until, reason: text.to_owned() }
        }
        Limit::Until(_) | Limit::Open | Limit::None => end(EndState::Failed, Some(text)),
    }
}

pub(super) fn canceled_unsent(facts: &Facts<'_>) -> TaskStep {
    let cause = facts.task.work.cancel.map_or(CancelCause::Request, |cancel| cancel.cause);
    let outcome =
        cancel_reason(cause, "it was canceled before its delivery", "it had not been delivered yet");
    end(EndState::Canceled, Some(&outcome))
}

/// A canceled task does not count as failed.
pub(super) fn delivery_unknown(facts: &Facts<'_>) -> TaskStep {
    if let Some(cancel) = facts.task.work.cancel {
        let unsure = "it is unknown whether it was delivered";
        return end(EndState::Canceled, Some(&cancel_reason(cancel.cause, unsure, unsure)));
    }
    end(
        EndState::Failed,
        Some(
            "it is unknown whether the message was delivered; it was not sent again, so that no work is \
            done twice",
        ),
    )
}

pub(super) fn end(state: EndState, outcome: Option<&str>) -> TaskStep {
    TaskStep::End(ending(state, outcome))
}

pub fn ending(state: EndState, outcome: Option<&str>) -> Ending {
    let outcome = outcome.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    Ending { state, outcome, needs_answer: false, reached: Escalation::None }
}

fn failed(facts: &Facts<'_>, text: &str) -> TaskStep {
    limited(facts, usage_limit::read(text, facts.clock.now()), text)
}

fn asked(text: &str) -> Ending {
    Ending { needs_answer: true, ..ending(EndState::Done, Some(text)) }
}
