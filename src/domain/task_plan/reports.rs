//! Tasks of agents that nobody can ask: what they report of themselves through Coder tells.

use super::ending::{self, claimed, end};
use super::{Facts, Step, is_quiet, keep_on};
use crate::domain::app::AppSeen;
use crate::domain::status::ReportSeen;
use crate::domain::task::{Channel, Claim, ClaimKind, Delivery, EndState, TaskOrigin};
use crate::domain::words::AppState;

/// Whether the workspace's prompt was taken up.
pub(super) fn unsent(facts: &Facts<'_>) -> Step {
    match facts.report.map(|report| &report.state) {
        Some(AppState::Working | AppState::Complete | AppState::Failure) => {
            Step::Take { channel: Channel::Reports, base: None }
        }
        Some(AppState::Idle | AppState::Unknown(_)) | None if is_quiet(facts) => end(
            EndState::Done,
            Some("unknown: the workspace started with it as its prompt, and no report shows its result"),
        ),
        Some(AppState::Idle | AppState::Unknown(_)) | None => Step::Wait,
    }
}

/// Where nobody shows whether the agent still works, its word is all there is; an app that is only silent may show it
/// yet.
pub(super) fn taken(facts: &Facts<'_>, channel: Channel) -> Step {
    let is_blind = channel == Channel::Reports || facts.app.has_no_agent();
    match ending::claim(facts) {
        Some(claim) if is_blind => claimed(facts, &claim),
        Some(_) | None => keep_on(facts),
    }
}

/// What the newest report says of the end of the task. One from before the task, or from before the agent took it,
/// says nothing of it.
pub(super) fn claim(facts: &Facts<'_>) -> Option<Claim> {
    let Delivery::Taken { at, .. } = facts.task.delivery() else { return None };
    let is_spec = facts.task.work.origin == TaskOrigin::Spec;
    let since = if is_spec { facts.task.entry.created_at } else { at };
    let report = facts.report.filter(|report| report.at >= since)?;
    Some(Claim { kind: kind(report, facts.app)?, text: report.message.clone(), at: report.at })
}

fn kind(report: &ReportSeen, app: &AppSeen) -> Option<ClaimKind> {
    match report.state {
        AppState::Complete => Some(ClaimKind::Complete),
        AppState::Failure => Some(ClaimKind::Failure),
        AppState::Idle if report.needs_answer => Some(ClaimKind::Question),
        AppState::Idle if app.has_no_agent() => Some(ClaimKind::Complete),
        AppState::Idle | AppState::Working | AppState::Unknown(_) => None,
    }
}
