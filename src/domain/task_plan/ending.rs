//! How tasks end, and the one rule for what an agent says of the end itself.
//!
//! The agent's own word is a claim. It says how the task went once the turn is over, and it ends nothing before that:
//! an agent that goes on working long after its claim is interrupted, so that no engine works without a task.

use chrono::{DateTime, TimeDelta, Utc};

use super::ladder::SIGNALED;
use super::{Ending, Facts, Step, reports};
use crate::domain::app::TurnEnd;
use crate::domain::task::{Channel, Claim, ClaimKind, Reached, TaskState};
use crate::domain::usage_limit::{self, Limit};

/// After its claim an agent may take this long to say its last words and to tidy up.
pub(super) const CLAIM_GRACE: TimeDelta = TimeDelta::seconds(30);

/// The agent's own word on the end of its task. Where it cannot call us it reports to Coder; our runner's reports say
/// nothing that its turns do not say better.
pub(super) fn claim(facts: &Facts<'_>) -> Option<Claim> {
    let own = facts.task.work.claim.clone();
    match facts.task.channel() {
        Some(Channel::AgentApi | Channel::Reports) => own.or_else(|| reports::claim(facts)),
        Some(Channel::Runner | Channel::Exec) | None => own,
    }
}

/// Since when a task has had all the time it gets: what it was given, or what is left after its claim.
pub(super) fn due_since(facts: &Facts<'_>) -> Option<DateTime<Utc>> {
    let claimed = claim(facts).map(|claim| claim.at + CLAIM_GRACE);
    let due = [claimed, facts.task.deadline()].into_iter().flatten().min();
    due.filter(|due| facts.now >= *due)
}

/// The turn is over, and its end is known.
pub(super) fn ended(facts: &Facts<'_>, turn: &TurnEnd) -> Step {
    let work = &facts.task.work;
    match turn {
        TurnEnd::Complete { text } => match claim(facts) {
            Some(claim) => claimed(facts, &claim),
            None => end(TaskState::Done, Some(text)),
        },
        TurnEnd::Question { text } => Step::End(asked(text)),
        // Its engine fell by our own hand.
        TurnEnd::Failed { .. } if work.reached == Reached::Signals => interrupted(facts),
        TurnEnd::Failed { text } => failed(facts, text),
        TurnEnd::Interrupted => interrupted(facts),
        TurnEnd::Stopped => cut_short(
            facts,
            ending(TaskState::Canceled, Some("the workspace was stopped in the middle of it")),
        ),
        TurnEnd::Crashed => {
            let outcome = "the agent's runner ended in the middle of it; it is not run again";
            cut_short(facts, ending(TaskState::Failed, Some(outcome)))
        }
        TurnEnd::Unbegun if work.cancel.is_some() => canceled_unsent(),
        TurnEnd::Unbegun => Step::Resume { reason: "the server stopped before it was begun" },
        TurnEnd::Forgotten => {
            let outcome =
                "the agent was through with it and no longer knows how it went; it is not run again";
            cut_short(facts, ending(TaskState::Failed, Some(outcome)))
        }
        TurnEnd::Unknown { word } => {
            end(TaskState::Failed, Some(&format!("it ended in a way we do not know: {word}")))
        }
    }
}

/// Something ended the work before the agent did: what it had claimed by then stands, unless somebody canceled it.
pub(super) fn cut_short(facts: &Facts<'_>, otherwise: Ending) -> Step {
    match claim(facts) {
        Some(claim) if facts.task.work.cancel.is_none() => claimed(facts, &claim),
        Some(_) | None => Step::End(otherwise),
    }
}

pub(super) fn interrupted(facts: &Facts<'_>) -> Step {
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
    cut_short(facts, Ending { reached, ..ending(state, Some(outcome)) })
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
        ClaimKind::Complete => ending(TaskState::Done, Some(&claim.text)),
        ClaimKind::Failure => ending(TaskState::Failed, Some(&claim.text)),
        ClaimKind::Question => asked(&claim.text),
    }
}

/// A usage limit parks what it cut short until its end; where that is unknown, it is a failure like any other.
pub(super) fn limited(facts: &Facts<'_>, limit: Limit, text: &str) -> Step {
    match limit {
        Limit::Until(until) if facts.task.work.cancel.is_none() => {
            Step::Park { until, reason: text.to_owned() }
        }
        Limit::Until(_) | Limit::Open | Limit::None => end(TaskState::Failed, Some(text)),
    }
}

pub(super) fn canceled_unsent() -> Step {
    end(TaskState::Canceled, Some("it was canceled before the agent had it"))
}

pub(super) fn lost() -> Step {
    end(
        TaskState::Failed,
        Some(
            "whether the message arrived cannot be told; it was not sent again, so that nothing is done twice",
        ),
    )
}

pub(super) fn end(state: TaskState, outcome: Option<&str>) -> Step {
    Step::End(ending(state, outcome))
}

pub fn ending(state: TaskState, outcome: Option<&str>) -> Ending {
    let outcome = outcome.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    Ending { state, outcome, needs_answer: false, reached: Reached::None }
}

fn failed(facts: &Facts<'_>, text: &str) -> Step {
    limited(facts, usage_limit::read(text, facts.now), text)
}

fn asked(text: &str) -> Ending {
    Ending { needs_answer: true, ..ending(TaskState::Done, Some(text)) }
}
