//! How tasks end, and the one rule for what an agent says of the end itself.
//!
//! The agent's own word is a claim. It says how the task went once the turn is over, and it ends nothing before that:
//! an agent that goes on working long after its claim is interrupted, so that no engine works without a task.

use chrono::TimeDelta;

use super::ladder::SIGNALED;
use super::{Again, Ending, Facts, Step, reports};
use crate::domain::app::TurnEnd;
use crate::domain::question;
use crate::domain::task::{CancelCause, Channel, Claim, ClaimKind, EndState, Reached};
use crate::domain::usage_limit::{self, Limit};

const STOPPED: &str = "interrupted: the workspace was stopped during the task, and its engine cannot resume \
    it; it is not run again";
const RUNNER_DIED: &str = "the agent's runner ended during the task; it is not run again";

/// The agent's own word on the end of its task. Where it cannot call us it reports to Coder; our runner's reports say
/// nothing that its turns do not say better.
pub(super) fn claim(facts: &Facts<'_>) -> Option<Claim> {
    let own = facts.task.work.claim.clone();
    match facts.task.channel() {
        Some(Channel::AgentApi | Channel::Reports) => own.or_else(|| reports::claim(facts)),
        Some(Channel::Runner | Channel::Exec) | None => own,
    }
}

/// For how long a task has had more time than it gets: more than it was given, or more than is left after its claim.
pub(super) fn overdue_for(facts: &Facts<'_>) -> Option<TimeDelta> {
    let grace = facts.clock.limits().claim_grace;
    let claimed = claim(facts).map(|claim| facts.clock.since(claim.at) - grace);
    let late = facts.task.work.timeout.map(|timeout| facts.task.work.worked - timeout);
    [claimed, late].into_iter().flatten().max().filter(|over| *over >= TimeDelta::zero())
}

/// The turn is over, and its end is known.
pub(super) fn ended(facts: &Facts<'_>, turn: &TurnEnd) -> Step {
    let work = &facts.task.work;
    match turn {
        TurnEnd::Complete { text } => match claim(facts) {
            Some(claim) => claimed(facts, &claim),
            None => answered(text),
        },
        TurnEnd::Question { text } => match claim(facts) {
            Some(claim) => claimed(facts, &claim),
            None => Step::End(asked(text)),
        },
        // Its engine fell by our own hand.
        TurnEnd::Failed { .. } if work.reached == Reached::Signals => interrupted(facts),
        TurnEnd::Failed { text } => failed(facts, text),
        TurnEnd::Interrupted => interrupted(facts),
        TurnEnd::Parked if work.cancel.is_some() => interrupted(facts),
        TurnEnd::Parked => match claim(facts) {
            Some(claim) => claimed(facts, &claim),
            None => Step::Resume { reason: "the workspace was stopped during the task", again: Again::GoOn },
        },
        TurnEnd::Stopped if work.cancel.is_some() => interrupted(facts),
        TurnEnd::Stopped => cut_short(facts, ending(EndState::Canceled, Some(STOPPED))),
        TurnEnd::Crashed => runner_died(facts),
        TurnEnd::Unbegun if work.cancel.is_some() && !facts.task.is_owed() => canceled_unsent(facts),
        TurnEnd::Unbegun => {
            Step::Resume { reason: "the agent was stopped before the task began", again: Again::Whole }
        }
        TurnEnd::Forgotten => {
            let outcome = "the agent finished the task and lost its result; it is not run again";
            cut_short(facts, ending(EndState::Failed, Some(outcome)))
        }
        TurnEnd::Unknown { word } => {
            end(EndState::Failed, Some(&format!("it ended with the unknown state '{word}'")))
        }
    }
}

/// The turn is over with this answer and without a report.
pub(super) fn answered(text: &str) -> Step {
    if question::is_asked(text) { Step::End(asked(text)) } else { end(EndState::Done, Some(text)) }
}

/// Something ended the work before the agent did: what it had claimed by then stands, unless somebody canceled it.
pub(super) fn cut_short(facts: &Facts<'_>, otherwise: Ending) -> Step {
    match claim(facts) {
        Some(claim) if facts.task.work.cancel.is_none() => claimed(facts, &claim),
        Some(_) | None => Step::End(otherwise),
    }
}

/// Nothing goes on with it. A task that was to be ended anyway is no failure.
pub(super) fn runner_died(facts: &Facts<'_>) -> Step {
    match facts.task.work.cancel {
        Some(cancel) => end(EndState::Canceled, Some(&why(cancel.cause, RUNNER_DIED, RUNNER_DIED))),
        None => cut_short(facts, ending(EndState::Failed, Some(RUNNER_DIED))),
    }
}

pub(super) fn interrupted(facts: &Facts<'_>) -> Step {
    let is_signaled = facts.task.work.reached == Reached::Signals;
    let (state, outcome) = match facts.task.work.cancel {
        Some(cancel) if is_signaled => (EndState::Canceled, why(cancel.cause, SIGNALED, SIGNALED)),
        Some(cancel) => (EndState::Canceled, why(cancel.cause, "it was interrupted on request", "")),
        None if facts.task.is_late() => (EndState::TimedOut, "it exceeded its timeout".to_owned()),
        None => (EndState::Canceled, "it was interrupted inside the workspace".to_owned()),
    };
    // A run has nobody to plead with: it is ended by signals.
    let is_run = facts.task.channel() == Some(Channel::Exec);
    let reached = if is_run { Reached::Signals } else { Reached::Interrupt };
    cut_short(facts, Ending { reached, ..ending(state, Some(&outcome)) })
}

/// The reason of a canceled task: as asked, or the task that interrupted it with what else is to be said.
pub fn why(cause: CancelCause, as_asked: &str, more: &str) -> String {
    match cause {
        CancelCause::Request => as_asked.to_owned(),
        CancelCause::Interrupt(by) if more.is_empty() => format!("interrupted by task {by}"),
        CancelCause::Interrupt(by) => format!("interrupted by task {by}; {more}"),
    }
}

/// The work is over and this is what the agent said of it.
pub(super) fn claimed(facts: &Facts<'_>, claim: &Claim) -> Step {
    match claim.kind {
        ClaimKind::Failure => failed(facts, &claim.text),
        ClaimKind::Complete | ClaimKind::Question => Step::End(word_of(claim)),
    }
}

/// How a task ends whose claim is all that will ever be known: it may still run, so it must not begin again.
pub(super) fn word_of(claim: &Claim) -> Ending {
    match claim.kind {
        ClaimKind::Complete => ending(EndState::Done, Some(&claim.text)),
        ClaimKind::Failure => ending(EndState::Failed, Some(&claim.text)),
        ClaimKind::Question => asked(&claim.text),
    }
}

/// A usage limit parks what it cut short until its end; where that is unknown, it is a failure like any other.
pub(super) fn limited(facts: &Facts<'_>, limit: Limit, text: &str) -> Step {
    match limit {
        Limit::Until(until) if facts.task.work.cancel.is_none() => {
            Step::Park { until, reason: text.to_owned() }
        }
        Limit::Until(_) | Limit::Open | Limit::None => end(EndState::Failed, Some(text)),
    }
}

pub(super) fn canceled_unsent(facts: &Facts<'_>) -> Step {
    let cause = facts.task.work.cancel.map_or(CancelCause::Request, |cancel| cancel.cause);
    let outcome = why(cause, "it was canceled before its delivery", "it had not been delivered yet");
    end(EndState::Canceled, Some(&outcome))
}

/// A task that was to be ended anyway is no failure.
pub(super) fn lost(facts: &Facts<'_>) -> Step {
    if let Some(cancel) = facts.task.work.cancel {
        let unsure = "it is unknown whether it was delivered";
        return end(EndState::Canceled, Some(&why(cancel.cause, unsure, unsure)));
    }
    end(
        EndState::Failed,
        Some(
            "it is unknown whether the message was delivered; it was not sent again, so that no work is \
            done twice",
        ),
    )
}

pub(super) fn end(state: EndState, outcome: Option<&str>) -> Step {
    Step::End(ending(state, outcome))
}

pub fn ending(state: EndState, outcome: Option<&str>) -> Ending {
    let outcome = outcome.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    Ending { state, outcome, needs_answer: false, reached: Reached::None }
}

fn failed(facts: &Facts<'_>, text: &str) -> Step {
    limited(facts, usage_limit::read(text, facts.clock.now()), text)
}

fn asked(text: &str) -> Ending {
    Ending { needs_answer: true, ..ending(EndState::Done, Some(text)) }
}
