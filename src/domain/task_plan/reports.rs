//! Tasks of agents without an app: only their reports through Coder show progress.

use super::ending::{self, end, end_as_claimed};
use super::{Facts, TaskStep, continue_or_escalate, is_quiet};
use crate::domain::app::AppSeen;
use crate::domain::status::ReportSeen;
use crate::domain::task::{Channel, Claim, ClaimKind, Delivery, EndState, TaskOrigin};
use crate::domain::words::AppState;

/// Whether the agent began with the workspace's prompt.
pub(super) fn unsent(facts: &Facts<'_>) -> TaskStep {
    match facts.report.map(|report| &report.state) {
        Some(AppState::Working | AppState::Complete | AppState::Failure) => {
            TaskStep::MarkDelivered { channel: Channel::Reports, base: None }
        }
        Some(AppState::Idle | AppState::Unknown(_)) | None if is_quiet(facts) => end(
            EndState::Done,
            Some("unknown: the workspace started with it as its prompt, and no report shows its result"),
        ),
        Some(AppState::Idle | AppState::Unknown(_)) | None => TaskStep::Wait,
    }
}

/// Without an app the claim is the only information; an app that is only silent may still show the end of the turn.
pub(super) fn taken(facts: &Facts<'_>, channel: Channel) -> TaskStep {
    let is_blind = channel == Channel::Reports || facts.app.has_no_agent();
    match ending::claim(facts) {
        Some(claim) if is_blind => end_as_claimed(facts, &claim),
        Some(_) | None => continue_or_escalate(facts),
    }
}

/// The claim in the newest report. Reports from before the task or its delivery do not count.
pub(super) fn claim(facts: &Facts<'_>) -> Option<Claim> {
    let Delivery::Delivered { at, .. } = facts.task.delivery() else { return None };
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
