//! The next step of an operation that is to be canceled, decided from its record and Coder's current state.
//!
//! A running build of ours is canceled; one that has succeeded cannot be reverted, so the operation is done. A
//! create is never canceled this way: its delete removes the result.

use super::operation::{OperationKind, Progress};
use super::plan::{BuildState, CancelOutcome, OperationStep, Seen};
use super::words::{JobStatus, Transition};

pub fn plan_cancel(kind: OperationKind, progress: Progress, seen: &Seen) -> OperationStep {
    let is_delete = kind == OperationKind::Delete;
    let newest = match seen {
        Seen::Gone | Seen::Foreign if is_delete => return OperationStep::Finish,
        Seen::Gone | Seen::Foreign => return OperationStep::Cancel(CancelOutcome::Gone),
        Seen::Build(newest) => newest,
    };
    let is_deleted = newest.transition == Transition::Delete && newest.job == JobStatus::Succeeded;
    match own_build(kind, progress, newest) {
        _ if is_deleted && is_delete => OperationStep::Finish,
        _ if is_deleted => OperationStep::Cancel(CancelOutcome::Gone),
        OwnBuild::Sent => end_of_own(kind, newest),
        OwnBuild::NotYet => OperationStep::Cancel(CancelOutcome::Nothing),
        OwnBuild::Overtaken => OperationStep::Cancel(CancelOutcome::OtherBuild),
    }
}

/// Whether the newest build is ours.
enum OwnBuild {
    Sent,
    /// Ours was not sent, or did not arrive.
    NotYet,
    Overtaken,
}

fn own_build(kind: OperationKind, progress: Progress, newest: &BuildState) -> OwnBuild {
    match progress {
        Progress::Accepted => OwnBuild::NotYet,
        Progress::Sending { base_build, .. } if newest.number <= base_build => OwnBuild::NotYet,
        Progress::Sending { .. } if !newest.is_automatic && leads_to(kind, &newest.transition) => {
            OwnBuild::Sent
        }
        // Coder itself queues the second build of a restart, and of a repairing start, right after the first.
        Progress::Following { build, .. }
            if newest.number == build + 1 && is_of_two(kind) && newest.transition == Transition::Start =>
        {
            OwnBuild::Sent
        }
        Progress::Following { build, .. } if newest.number == build => OwnBuild::Sent,
        Progress::Sending { .. } | Progress::Following { .. } => OwnBuild::Overtaken,
    }
}

/// A restart, and a start that repairs a broken agent, may be a stop build and a start build.
fn is_of_two(kind: OperationKind) -> bool {
    match kind {
        OperationKind::Start | OperationKind::Restart => true,
        OperationKind::Create | OperationKind::Stop | OperationKind::Delete => false,
    }
}

/// Whether an operation of this kind sends such builds.
fn leads_to(kind: OperationKind, transition: &Transition) -> bool {
    match transition {
        Transition::Start => is_of_two(kind) || kind == OperationKind::Create,
        Transition::Stop => is_of_two(kind) || kind == OperationKind::Stop,
        Transition::Delete => kind == OperationKind::Delete,
        Transition::Unknown(_) => false,
    }
}

fn end_of_own(kind: OperationKind, newest: &BuildState) -> OperationStep {
    let is_half = is_of_two(kind) && newest.transition == Transition::Stop;
    match newest.job {
        JobStatus::Pending | JobStatus::Running | JobStatus::Unknown(_) => OperationStep::CancelBuild,
        JobStatus::Canceling => OperationStep::Watch,
        JobStatus::Canceled => OperationStep::Cancel(CancelOutcome::CanceledBuild),
        JobStatus::Failed => OperationStep::Cancel(CancelOutcome::FailedBuild),
        JobStatus::Succeeded if is_half => OperationStep::Cancel(CancelOutcome::Stopped),
        JobStatus::Succeeded => OperationStep::Finish,
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;
    use crate::domain::status::Fitness;

    fn build(number: i64, transition: Transition, job: &str) -> Seen {
        Seen::Build(BuildState {
            number,
            transition,
            job: JobStatus::from_word(job),
            error: None,
            is_automatic: false,
            fitness: Fitness::Well,
        })
    }

    fn stop(number: i64, job: &str) -> Seen {
        build(number, Transition::Stop, job)
    }

    const OURS: Progress = Progress::Following { build: 3, ended_at: None };

    #[test]
    fn what_coder_was_not_asked_for_ends_at_once() {
        let sending = Progress::Sending { sent_at: Utc::now(), base_build: 2 };
        for progress in [Progress::Accepted, sending] {
            let step = plan_cancel(OperationKind::Stop, progress, &build(2, Transition::Start, "running"));
            assert_eq!(step, OperationStep::Cancel(CancelOutcome::Nothing));
        }
        assert_eq!(
            plan_cancel(OperationKind::Stop, sending, &stop(3, "running")),
            OperationStep::CancelBuild
        );
    }

    #[test]
    fn our_own_build_is_canceled_and_what_came_of_it_is_told() {
        let steps = ["pending", "running", "canceling", "canceled", "failed", "succeeded"]
            .map(|job| plan_cancel(OperationKind::Stop, OURS, &stop(3, job)));
        let expected = [
            OperationStep::CancelBuild,
            OperationStep::CancelBuild,
            OperationStep::Watch,
            OperationStep::Cancel(CancelOutcome::CanceledBuild),
            OperationStep::Cancel(CancelOutcome::FailedBuild),
            OperationStep::Finish,
        ];
        assert_eq!(steps, expected);
        assert_eq!(
            plan_cancel(OperationKind::Restart, OURS, &stop(3, "succeeded")),
            OperationStep::Cancel(CancelOutcome::Stopped)
        );
        let started = build(4, Transition::Start, "running");
        assert_eq!(plan_cancel(OperationKind::Restart, OURS, &started), OperationStep::CancelBuild);
        assert_eq!(
            plan_cancel(OperationKind::Stop, OURS, &started),
            OperationStep::Cancel(CancelOutcome::OtherBuild)
        );
    }

    #[test]
    fn a_start_that_repairs_is_canceled_like_a_restart() {
        let step = |seen: &Seen| plan_cancel(OperationKind::Start, OURS, seen);
        assert_eq!(step(&stop(3, "succeeded")), OperationStep::Cancel(CancelOutcome::Stopped));
        assert_eq!(step(&build(4, Transition::Start, "running")), OperationStep::CancelBuild);
    }

    #[test]
    fn a_build_that_the_operation_did_not_send_is_left_alone() {
        let sending = Progress::Sending { sent_at: Utc::now(), base_build: 2 };
        let step = |seen: &Seen| plan_cancel(OperationKind::Stop, sending, seen);
        assert_eq!(
            step(&build(3, Transition::Start, "running")),
            OperationStep::Cancel(CancelOutcome::OtherBuild)
        );
        let Seen::Build(stopped) = stop(3, "running") else { return };
        let automatic = Seen::Build(BuildState { is_automatic: true, ..stopped });
        assert_eq!(step(&automatic), OperationStep::Cancel(CancelOutcome::OtherBuild));
        let later = build(5, Transition::Start, "running");
        assert_eq!(
            plan_cancel(OperationKind::Restart, OURS, &later),
            OperationStep::Cancel(CancelOutcome::OtherBuild)
        );
    }

    #[test]
    fn a_workspace_that_is_gone_ends_its_delete_as_done_and_everything_else_as_canceled() {
        for seen in [Seen::Gone, build(4, Transition::Delete, "succeeded")] {
            assert_eq!(plan_cancel(OperationKind::Delete, OURS, &seen), OperationStep::Finish);
            assert_eq!(
                plan_cancel(OperationKind::Stop, OURS, &seen),
                OperationStep::Cancel(CancelOutcome::Gone)
            );
        }
    }
}
