//! The next step of an operation, decided from its record and Coder's current state.
//!
//! The planner is stateless: killed at any point and called again, it continues from the record. A request whose
//! response was lost is recognised by the build number it started from, so it is never sent twice.

use chrono::{DateTime, Utc};

use super::clock::Clock;
use super::operation::{OperationKind, Progress};
use super::rescue::RescueOutcome;
use super::status::Fitness;
use super::words::{JobStatus, Transition};

/// Coder's state of the operation's workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// There is none, or it is deleted.
    Gone,
    /// The newest build of our workspace.
    Build(BuildState),
    /// The name belongs to a workspace that is not ours (create only).
    Foreign,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildState {
    pub number: i64,
    pub transition: Transition,
    pub job: JobStatus,
    pub error: Option<String>,
    /// Coder made it by itself, so it supersedes no operation.
    pub is_automatic: bool,
    /// Of the workspace agents, once a start has succeeded.
    pub fitness: Fitness,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationStep {
    /// Record the intent with this base build, then send the request.
    Send {
        request: Request,
        base_build: i64,
    },
    /// Record that this build is ours.
    Follow {
        build: i64,
    },
    /// Record that the followed build has ended, and look again.
    NoteEnd {
        build: i64,
    },
    /// Save the agent's work until this deadline, and look again.
    Rescue {
        until: DateTime<Utc>,
    },
    /// Ask Coder to cancel the blocking build, then look again.
    CancelBuild,
    /// Our own build runs: wait for its end.
    Watch,
    /// No build of ours runs: wait for a change at Coder.
    Wait,
    Finish,
    Fail(Cause),
    /// End it as canceled.
    Cancel(CancelOutcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Create,
    Start,
    Stop,
    /// One stop build after which Coder queues the start.
    StopThenStart,
    Delete,
}

/// What a canceled operation leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// No request was sent, or it had no effect.
    Nothing,
    /// Its build was canceled.
    CanceledBuild,
    /// Its build had already failed.
    FailedBuild,
    /// Only the stop of a restart was carried out.
    Stopped,
    /// Another build followed its own.
    OtherBuild,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The name belongs to a workspace that is not ours.
    NameTaken,
    WorkspaceGone,
    BuildFailed(Option<String>),
    BuildCanceled,
    /// Another build, not ours, came in between.
    Overtaken,
    /// A delete that is not this operation's is in progress.
    BeingDeleted,
}

pub fn plan(kind: OperationKind, progress: Progress, seen: &Seen, clock: &Clock) -> OperationStep {
    match kind {
        OperationKind::Create => plan_create(progress, seen),
        OperationKind::Start => plan_change(Wanted::Running, progress, seen, clock),
        OperationKind::Stop => plan_change(Wanted::Stopped, progress, seen, clock),
        OperationKind::Restart => plan_restart(progress, seen, clock),
        OperationKind::Delete => plan_delete(progress, seen, clock),
    }
}

/// Saves the agent's work before the build that ends it. The time limit runs from the first attempt, so that
/// neither an unresponsive workspace nor a restart of ours delays a delete.
pub fn rescue_first(step: OperationStep, rescue: Option<&RescueOutcome>, clock: &Clock) -> OperationStep {
    let is_delete = matches!(step, OperationStep::Send { request: Request::Delete, .. });
    let limit = clock.limits().rescue;
    match rescue {
        Some(RescueOutcome::Wanted) if is_delete => OperationStep::Rescue { until: clock.now() + limit },
        Some(RescueOutcome::Trying { since }) if is_delete && clock.since(*since) < limit => {
            OperationStep::Rescue { until: clock.now() + limit - clock.since(*since) }
        }
        Some(_) | None => step,
    }
}

/// A delete build ends every other operation: once it has succeeded the workspace is gone, whatever else Coder
/// still reports, and while it runs nothing else may be built. A failed delete leaves a usable workspace.
fn ended_by_delete(newest: &BuildState) -> Option<OperationStep> {
    match (&newest.transition, &newest.job) {
        (Transition::Delete, JobStatus::Succeeded) => Some(OperationStep::Fail(Cause::WorkspaceGone)),
        (Transition::Delete, job) if !job.is_ended() => Some(OperationStep::Fail(Cause::BeingDeleted)),
        (Transition::Delete | Transition::Start | Transition::Stop | Transition::Unknown(_), _) => None,
    }
}

fn plan_create(progress: Progress, seen: &Seen) -> OperationStep {
    if let Seen::Build(build) = seen
        && progress != Progress::Accepted
        && let Some(end) = ended_by_delete(build)
    {
        return end;
    }
    match (progress, seen) {
        (Progress::Accepted | Progress::Sending { .. }, Seen::Gone) => {
            OperationStep::Send { request: Request::Create, base_build: 0 }
        }
        (Progress::Accepted, Seen::Build(_)) | (_, Seen::Foreign) => OperationStep::Fail(Cause::NameTaken),
        (Progress::Sending { .. }, Seen::Build(build)) => OperationStep::Follow { build: build.number },
        (Progress::Following { .. }, Seen::Gone) => OperationStep::Fail(Cause::WorkspaceGone),
        (Progress::Following { build: ours, .. }, Seen::Build(build)) => {
            follow_newest(ours, build, &Transition::Start)
        }
    }
}

/// The target state of a start or a stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Running,
    Stopped,
}

impl Wanted {
    fn request(self) -> Request {
        match self {
            Self::Running => Request::Start,
            Self::Stopped => Request::Stop,
        }
    }

    fn transition(self) -> Transition {
        match self {
            Self::Running => Transition::Start,
            Self::Stopped => Transition::Stop,
        }
    }
}

fn plan_change(wanted: Wanted, progress: Progress, seen: &Seen, clock: &Clock) -> OperationStep {
    let Seen::Build(newest) = seen else { return OperationStep::Fail(Cause::WorkspaceGone) };
    if let Some(end) = ended_by_delete(newest) {
        return end;
    }
    let is_wanted = newest.transition == wanted.transition();
    match progress {
        Progress::Accepted if is_wanted && newest.job == JobStatus::Succeeded => confirm(wanted, newest),
        // A running build is not this operation's; its end shows whether one of its own is needed.
        Progress::Accepted => send_when_free(wanted.request(), newest),
        Progress::Sending { base_build, .. } if newest.number <= base_build => {
            if is_wanted {
                confirm(wanted, newest)
            } else {
                send_when_free(wanted.request(), newest)
            }
        }
        // A repair begins with a stop; the response to its request was lost.
        Progress::Sending { base_build, .. }
            if wanted == Wanted::Running
                && newest.transition == Transition::Stop
                && newest.number == base_build + 1 =>
        {
            OperationStep::Follow { build: newest.number }
        }
        Progress::Sending { .. } if is_wanted => OperationStep::Follow { build: newest.number },
        Progress::Sending { .. } if newest.is_automatic => send_when_free(wanted.request(), newest),
        Progress::Sending { .. } => OperationStep::Fail(Cause::Overtaken),
        Progress::Following { build, ended_at }
            if wanted == Wanted::Running
                && newest.transition == Transition::Stop
                && newest.number == build =>
        {
            restart_after_stop(build, ended_at, newest, clock)
        }
        Progress::Following { build, .. } => follow_newest(build, newest, &wanted.transition()),
    }
}

/// The newest build led to the wanted state. A start with a broken agent is repaired by a restart; an agent that is
/// only unreachable for now will show soon whether it returns.
fn confirm(wanted: Wanted, newest: &BuildState) -> OperationStep {
    match (wanted, newest.fitness) {
        _ if newest.job != JobStatus::Succeeded => send_when_free(wanted.request(), newest),
        (Wanted::Stopped, _) | (Wanted::Running, Fitness::Well) => OperationStep::Finish,
        (Wanted::Running, Fitness::Doubtful) => OperationStep::Wait,
        (Wanted::Running, Fitness::Broken) => {
            OperationStep::Send { request: Request::StopThenStart, base_build: newest.number }
        }
    }
}

fn plan_restart(progress: Progress, seen: &Seen, clock: &Clock) -> OperationStep {
    let Seen::Build(newest) = seen else { return OperationStep::Fail(Cause::WorkspaceGone) };
    if let Some(end) = ended_by_delete(newest) {
        return end;
    }
    match progress {
        Progress::Accepted => send_when_free(restart_request(newest), newest),
        Progress::Sending { base_build, .. } if newest.number <= base_build => {
            send_when_free(restart_request(newest), newest)
        }
        Progress::Sending { .. } => OperationStep::Follow { build: newest.number },
        Progress::Following { build, .. } if newest.number > build => {
            OperationStep::Follow { build: newest.number }
        }
        Progress::Following { .. } if newest.transition == Transition::Start => follow(newest.number, newest),
        Progress::Following { build, ended_at } => restart_after_stop(build, ended_at, newest, clock),
    }
}

/// From a stopped workspace a restart is a plain start.
fn restart_request(newest: &BuildState) -> Request {
    let is_stopped = newest.transition == Transition::Stop && newest.job == JobStatus::Succeeded;
    if is_stopped { Request::Start } else { Request::StopThenStart }
}

fn restart_after_stop(
    build: i64,
    ended_at: Option<DateTime<Utc>>,
    newest: &BuildState,
    clock: &Clock,
) -> OperationStep {
    match (follow(build, newest), ended_at) {
        (OperationStep::Finish, None) => OperationStep::NoteEnd { build },
        (OperationStep::Finish, Some(at)) if clock.since(at) < clock.limits().restart_grace => {
            OperationStep::Wait
        }
        (OperationStep::Finish, Some(_)) => {
            OperationStep::Send { request: Request::Start, base_build: newest.number }
        }
        (other, _) => other,
    }
}

fn plan_delete(progress: Progress, seen: &Seen, clock: &Clock) -> OperationStep {
    let newest = match (seen, progress) {
        // A create was sent and shows no effect yet: it may still arrive.
        (Seen::Gone, Progress::Sending { sent_at, base_build: 0 })
            if clock.since(sent_at) < clock.limits().send =>
        {
            return OperationStep::Wait;
        }
        (Seen::Gone | Seen::Foreign, _) => return OperationStep::Finish,
        (Seen::Build(newest), _) => newest,
    };
    let is_delete = newest.transition == Transition::Delete;
    match progress {
        _ if is_delete && newest.job == JobStatus::Succeeded => OperationStep::Finish,
        Progress::Following { build, .. } if newest.number == build => follow(build, newest),
        Progress::Accepted if is_delete && !newest.job.is_ended() => OperationStep::Wait,
        _ if is_delete && !newest.job.is_ended() => OperationStep::Follow { build: newest.number },
        Progress::Sending { base_build, .. } if is_delete && newest.number > base_build && base_build > 0 => {
            follow(newest.number, newest)
        }
        Progress::Accepted | Progress::Sending { .. } | Progress::Following { .. } => match newest.job {
            JobStatus::Canceling => OperationStep::Wait,
            JobStatus::Pending | JobStatus::Running | JobStatus::Unknown(_) => OperationStep::CancelBuild,
            JobStatus::Succeeded | JobStatus::Canceled | JobStatus::Failed => {
                OperationStep::Send { request: Request::Delete, base_build: newest.number }
            }
        },
    }
}

/// Coder runs one build at a time: a request is sent once the newest one has ended.
fn send_when_free(request: Request, newest: &BuildState) -> OperationStep {
    if newest.job.is_ended() {
        OperationStep::Send { request, base_build: newest.number }
    } else {
        OperationStep::Wait
    }
}

/// A newer build with the same target replaces ours: a stopping server ends its agents and starts them again the
/// next time, before the end of ours was seen.
fn follow_newest(ours: i64, newest: &BuildState, towards: &Transition) -> OperationStep {
    if newest.number > ours && newest.transition == *towards {
        return OperationStep::Follow { build: newest.number };
    }
    // A start that Coder itself stopped in the middle is also restarted by Coder.
    let is_stopped = newest.transition == Transition::Stop && *towards == Transition::Start;
    if newest.number > ours && is_stopped && newest.is_automatic {
        return OperationStep::Wait;
    }
    follow(ours, newest)
}

fn follow(ours: i64, newest: &BuildState) -> OperationStep {
    if newest.number != ours {
        return OperationStep::Fail(Cause::Overtaken);
    }
    match &newest.job {
        JobStatus::Succeeded => OperationStep::Finish,
        JobStatus::Failed => OperationStep::Fail(Cause::BuildFailed(newest.error.clone())),
        JobStatus::Canceled => OperationStep::Fail(Cause::BuildCanceled),
        JobStatus::Pending | JobStatus::Running | JobStatus::Canceling | JobStatus::Unknown(_) => {
            OperationStep::Watch
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
