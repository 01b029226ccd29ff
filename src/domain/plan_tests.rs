//! The planner against a model of Coder: crashes, lost responses and lost requests at every point.

use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;
use crate::domain::limits::Limits;

/// A Coder that queues builds as the real one does: one at a time, a stop may queue a start.
#[derive(Debug, Clone, Default)]
struct CoderModel {
    builds: Vec<(Transition, JobStatus)>,
    start_follows: bool,
    /// The number of builds after which the workspace agent is broken.
    broken: Option<usize>,
    sent: Vec<Request>,
}

/// A fault around one step.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Fine,
    /// The request never arrived.
    RequestLost,
    /// The request arrived, the response did not.
    AnswerLost,
    /// Killed after the effect and before recording it.
    Killed,
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::Fine),
        1 => Just(Fault::RequestLost),
        1 => Just(Fault::AnswerLost),
        1 => Just(Fault::Killed)
    ]
}

impl CoderModel {
    fn seen(&self) -> Seen {
        match self.builds.last() {
            None => Seen::Gone,
            // Deleted workspaces are read too, and show the build that deleted them.
            Some((transition, job)) => Seen::Build(BuildState {
                number: self.builds.len() as i64,
                transition: transition.clone(),
                job: job.clone(),
                error: None,
                is_automatic: false,
                fitness: if self.broken == Some(self.builds.len()) { Fitness::Broken } else { Fitness::Well },
            }),
        }
    }

    fn is_deleted(&self) -> bool {
        self.builds.last() == Some(&(Transition::Delete, JobStatus::Succeeded))
    }

    /// Coder's handling of a request; refused during an active build and for a deleted workspace.
    fn receive(&mut self, request: Request) -> bool {
        let is_active = self.builds.last().is_some_and(|(_, job)| !job.is_ended());
        let is_duplicate_create = request == Request::Create && !self.builds.is_empty();
        let is_absent = request != Request::Create && self.builds.is_empty();
        if is_active || is_duplicate_create || is_absent || self.is_deleted() {
            return false;
        }
        self.sent.push(request);
        self.start_follows = request == Request::StopThenStart;
        let transition = match request {
            Request::Create | Request::Start => Transition::Start,
            Request::Stop | Request::StopThenStart => Transition::Stop,
            Request::Delete => Transition::Delete,
        };
        self.builds.push((transition, JobStatus::Pending));
        true
    }

    /// Time passes: the active build advances, a queued start appears.
    fn tick(&mut self) {
        let n_builds = self.builds.len();
        let Some((transition, job)) = self.builds.last_mut() else { return };
        match job {
            JobStatus::Pending => *job = JobStatus::Running,
            JobStatus::Running => *job = JobStatus::Succeeded,
            JobStatus::Canceling => *job = JobStatus::Canceled,
            _ => {}
        }
        let ended_stop = *transition == Transition::Stop && *job == JobStatus::Succeeded;
        if ended_stop && self.start_follows && n_builds > 0 {
            self.start_follows = false;
            self.builds.push((Transition::Start, JobStatus::Pending));
        }
    }

    /// Builds requested by others are not ours.
    fn receive_of_another(&mut self, request: Request) {
        if self.receive(request) {
            self.sent.pop();
        }
    }

    fn cancel(&mut self) {
        if let Some((_, job)) = self.builds.last_mut()
            && !job.is_ended()
        {
            *job = JobStatus::Canceling;
        }
    }
}

/// Runs an operation to its end with the given faults.
fn run(kind: OperationKind, coder: &mut CoderModel, faults: &[Fault]) -> OperationStep {
    run_from((kind, Progress::Accepted), coder, faults, &[])
}

/// Continues from a record, while others request builds of the same workspace, one per second.
fn run_from(
    (kind, mut progress): (OperationKind, Progress),
    coder: &mut CoderModel,
    faults: &[Fault],
    others: &[Option<Request>],
) -> OperationStep {
    let mut now = start_of_time();
    let mut faults = faults.iter().copied().chain(std::iter::repeat(Fault::Fine));
    let mut others = others.iter().copied();
    for _ in 0..200 {
        now += TimeDelta::seconds(1);
        let step = plan(kind, progress, &coder.seen(), &Clock::at(now));
        match step {
            OperationStep::Finish | OperationStep::Fail(_) => return step,
            OperationStep::Watch | OperationStep::Wait => {}
            OperationStep::CancelBuild => coder.cancel(),
            OperationStep::NoteEnd { build } => progress = Progress::Following { build, ended_at: Some(now) },
            OperationStep::Follow { build } => progress = Progress::Following { build, ended_at: None },
            OperationStep::Rescue { .. } | OperationStep::Cancel(_) => {
                unreachable!("the plan alone neither rescues nor cancels")
            }
            OperationStep::Send { request, base_build } => {
                progress = Progress::Sending { sent_at: now, base_build };
                let faults = faults.next().unwrap();
                let accepted = !matches!(faults, Fault::RequestLost) && coder.receive(request);
                if accepted && matches!(faults, Fault::Fine) {
                    progress = Progress::Following { build: coder.builds.len() as i64, ended_at: None };
                }
            }
        }
        coder.tick();
        if let Some(Some(request)) = others.next() {
            coder.receive_of_another(request);
        }
    }
    panic!("no end after 200 steps: {kind:?} {progress:?} {coder:?}");
}

fn start_of_time() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn any_kind() -> impl Strategy<Value = OperationKind> {
    proptest::sample::select(OperationKind::ALL)
}

/// Any record that a process may have left.
fn any_progress() -> impl Strategy<Value = Progress> {
    prop_oneof![
        Just(Progress::Accepted),
        (0..5i64).prop_map(|base_build| Progress::Sending { sent_at: start_of_time(), base_build }),
        (1..5i64, any::<bool>()).prop_map(|(build, is_noted)| Progress::Following {
            build,
            ended_at: is_noted.then(start_of_time),
        }),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    proptest::sample::select(vec![Request::Start, Request::Stop, Request::StopThenStart, Request::Delete])
}

/// Any workspace, also deleted ones: only the newest build may still run.
fn any_coder() -> impl Strategy<Value = CoderModel> {
    let transitions = proptest::sample::select(vec!["start", "stop", "delete"]);
    let jobs = proptest::sample::select(vec!["pending", "running", "succeeded", "failed", "canceled"]);
    proptest::option::of((0..3usize, transitions, jobs)).prop_map(|newest| match newest {
        None => CoderModel::default(),
        Some((n_older, transition, job)) => {
            let older = std::iter::repeat_n(("start", "succeeded"), n_older);
            coder(&older.chain([(transition, job)]).collect::<Vec<_>>())
        }
    })
}

fn coder(builds: &[(&str, &str)]) -> CoderModel {
    let builds = builds.iter().map(|(t, j)| (Transition::from_word(t), JobStatus::from_word(j)));
    CoderModel { builds: builds.collect(), ..CoderModel::default() }
}

proptest! {
    #[test]
    fn a_create_makes_exactly_one_workspace_whatever_is_lost(faults in proptest::collection::vec(faults(), 0..12)) {
        let mut coder = CoderModel::default();
        prop_assert_eq!(run(OperationKind::Create, &mut coder, &faults), OperationStep::Finish);
        prop_assert_eq!(coder.sent, vec![Request::Create]);
    }

    #[test]
    fn start_stop_and_delete_send_exactly_one_build(faults in proptest::collection::vec(faults(), 0..12)) {
        let mut stopped = coder(&[("start", "succeeded"), ("stop", "succeeded")]);
        prop_assert_eq!(run(OperationKind::Start, &mut stopped, &faults), OperationStep::Finish);
        prop_assert_eq!(&stopped.sent, &vec![Request::Start]);
        let mut running = coder(&[("start", "succeeded")]);
        prop_assert_eq!(run(OperationKind::Stop, &mut running, &faults), OperationStep::Finish);
        prop_assert_eq!(&running.sent, &vec![Request::Stop]);
        let mut doomed = coder(&[("start", "succeeded")]);
        prop_assert_eq!(run(OperationKind::Delete, &mut doomed, &faults), OperationStep::Finish);
        prop_assert_eq!(&doomed.sent, &vec![Request::Delete]);
    }

    /// For any record, any state of Coder and any interference of others.
    #[test]
    fn every_operation_ends_and_none_builds_a_workspace_that_is_deleted(
        (kind, progress) in (any_kind(), any_progress()),
        mut coder in any_coder(),
        faults in proptest::collection::vec(faults(), 0..6),
        others in proptest::collection::vec(proptest::option::of(any_request()), 0..12),
    ) {
        let end = run_from((kind, progress), &mut coder, &faults, &others);
        if coder.is_deleted() && kind == OperationKind::Delete {
            prop_assert_eq!(end, OperationStep::Finish);
        }
    }

    #[test]
    fn a_delete_of_others_ends_what_is_under_way(
        kind in proptest::sample::select(vec![OperationKind::Start, OperationKind::Stop, OperationKind::Restart]),
        progress in any_progress(),
        faults in proptest::collection::vec(faults(), 0..4),
    ) {
        let mut deleted = coder(&[("start", "succeeded"), ("delete", "succeeded")]);
        let mut being_deleted = coder(&[("start", "succeeded"), ("delete", "running")]);
        let gone = run_from((kind, progress), &mut deleted, &faults, &[]);
        let going = run_from((kind, progress), &mut being_deleted, &faults, &[]);
        prop_assert_eq!([gone, going], [OperationStep::Fail(Cause::WorkspaceGone), OperationStep::Fail(Cause::BeingDeleted)]);
        prop_assert!(deleted.sent.is_empty() && being_deleted.sent.is_empty());
    }

    #[test]
    fn a_restart_ends_running_after_one_stop_and_one_start(faults in proptest::collection::vec(faults(), 0..12)) {
        let mut coder = coder(&[("start", "succeeded")]);
        prop_assert_eq!(run(OperationKind::Restart, &mut coder, &faults), OperationStep::Finish);
        prop_assert_eq!(&coder.sent, &vec![Request::StopThenStart]);
        let transitions: Vec<Transition> = coder.builds.into_iter().map(|(transition, _)| transition).collect();
        prop_assert_eq!(transitions, vec![Transition::Start, Transition::Stop, Transition::Start]);
    }

    #[test]
    fn a_start_repairs_a_broken_agent_by_one_stop_and_one_start(faults in proptest::collection::vec(faults(), 0..12)) {
        let mut coder = CoderModel { broken: Some(1), ..coder(&[("start", "succeeded")]) };
        prop_assert_eq!(run(OperationKind::Start, &mut coder, &faults), OperationStep::Finish);
        prop_assert_eq!(&coder.sent, &vec![Request::StopThenStart]);
        let transitions: Vec<Transition> = coder.builds.into_iter().map(|(transition, _)| transition).collect();
        prop_assert_eq!(transitions, vec![Transition::Start, Transition::Stop, Transition::Start]);
    }
}

#[test]
fn a_server_that_ignores_on_success_gets_its_own_start() {
    let mut coder = coder(&[("start", "succeeded")]);
    let old_server = |coder: &mut CoderModel| coder.start_follows = false;
    let mut progress = Progress::Accepted;
    let mut now = start_of_time();
    let end = loop {
        now += TimeDelta::seconds(1);
        match plan(OperationKind::Restart, progress, &coder.seen(), &Clock::at(now)) {
            OperationStep::Send { request, .. } => {
                assert!(coder.receive(request));
                old_server(&mut coder);
                progress = Progress::Following { build: coder.builds.len() as i64, ended_at: None };
            }
            OperationStep::NoteEnd { build } => progress = Progress::Following { build, ended_at: Some(now) },
            OperationStep::Follow { build } => progress = Progress::Following { build, ended_at: None },
            OperationStep::Watch | OperationStep::Wait => {}
            end @ (OperationStep::Finish
            | OperationStep::Fail(_)
            | OperationStep::CancelBuild
            | OperationStep::Rescue { .. }
            | OperationStep::Cancel(_)) => {
                break end;
            }
        }
        coder.tick();
    };
    assert_eq!(end, OperationStep::Finish);
    assert_eq!(coder.sent, vec![Request::StopThenStart, Request::Start]);
}

#[test]
fn what_is_already_so_needs_no_build() {
    let mut running = coder(&[("start", "succeeded")]);
    assert_eq!(run(OperationKind::Start, &mut running, &[]), OperationStep::Finish);
    let mut stopped = coder(&[("start", "succeeded"), ("stop", "succeeded")]);
    assert_eq!(run(OperationKind::Stop, &mut stopped, &[]), OperationStep::Finish);
    let mut gone = CoderModel::default();
    assert_eq!(run(OperationKind::Delete, &mut gone, &[]), OperationStep::Finish);
    assert!(running.sent.is_empty() && stopped.sent.is_empty() && gone.sent.is_empty());
}

#[test]
fn a_delete_cancels_the_build_in_its_way() {
    let mut starting = coder(&[("start", "running")]);
    assert_eq!(run(OperationKind::Delete, &mut starting, &[]), OperationStep::Finish);
    assert_eq!(starting.sent, vec![Request::Delete]);
    assert_eq!(starting.builds[0].1, JobStatus::Canceled);
}

#[test]
fn a_name_that_is_not_ours_is_never_adopted() {
    let now = Utc::now();
    let sending = Progress::Sending { sent_at: now, base_build: 0 };
    assert_eq!(
        plan(OperationKind::Create, Progress::Accepted, &Seen::Foreign, &Clock::at(now)),
        OperationStep::Fail(Cause::NameTaken)
    );
    assert_eq!(
        plan(OperationKind::Create, sending, &Seen::Foreign, &Clock::at(now)),
        OperationStep::Fail(Cause::NameTaken)
    );
    assert_eq!(plan(OperationKind::Delete, sending, &Seen::Foreign, &Clock::at(now)), OperationStep::Finish);
}

#[test]
fn a_delete_waits_for_a_create_that_may_still_arrive() {
    let now = Utc::now();
    let sending = |age: i64| Progress::Sending { sent_at: now - TimeDelta::seconds(age), base_build: 0 };
    assert_eq!(plan(OperationKind::Delete, sending(34), &Seen::Gone, &Clock::at(now)), OperationStep::Wait);
    assert_eq!(plan(OperationKind::Delete, sending(35), &Seen::Gone, &Clock::at(now)), OperationStep::Finish);
}

#[test]
fn failed_and_canceled_builds_end_the_operation_with_their_cause() {
    let failed = |job: &str| {
        Seen::Build(BuildState {
            number: 3,
            transition: Transition::Start,
            job: JobStatus::from_word(job),
            error: Some("no disk".into()),
            is_automatic: false,
            fitness: Fitness::Well,
        })
    };
    let ours = Progress::Following { build: 3, ended_at: None };
    let cause = Cause::BuildFailed(Some("no disk".into()));
    assert_eq!(
        plan(OperationKind::Start, ours, &failed("failed"), &Clock::at(Utc::now())),
        OperationStep::Fail(cause)
    );
    assert_eq!(
        plan(OperationKind::Start, ours, &failed("canceled"), &Clock::at(Utc::now())),
        OperationStep::Fail(Cause::BuildCanceled)
    );
}

fn build(number: i64, transition: Transition, job: &str) -> BuildState {
    let job = JobStatus::from_word(job);
    BuildState { number, transition, job, error: None, is_automatic: false, fitness: Fitness::Well }
}

/// A server that restarts a dead agent, or resumes after a kill, supersedes none of our operations.
#[test]
fn a_build_that_coder_made_by_itself_overtakes_no_operation() {
    let automatic =
        |transition, job| Seen::Build(BuildState { is_automatic: true, ..build(3, transition, job) });
    let now = Utc::now();
    let sending = Progress::Sending { sent_at: now, base_build: 2 };
    let step = |kind, progress, seen: Seen| plan(kind, progress, &seen, &Clock::at(now));
    assert_eq!(
        step(OperationKind::Stop, sending, automatic(Transition::Start, "running")),
        OperationStep::Wait
    );
    assert_eq!(
        step(OperationKind::Stop, sending, automatic(Transition::Start, "succeeded")),
        OperationStep::Send { request: Request::Stop, base_build: 3 }
    );
    let following = Progress::Following { build: 2, ended_at: None };
    for kind in [OperationKind::Create, OperationKind::Start] {
        assert_eq!(step(kind, following, automatic(Transition::Stop, "running")), OperationStep::Wait);
        assert_eq!(
            step(kind, following, automatic(Transition::Start, "running")),
            OperationStep::Follow { build: 3 }
        );
    }
}

#[test]
fn a_start_waits_for_an_agent_that_is_out_of_reach_for_now() {
    let doubtful = BuildState { fitness: Fitness::Doubtful, ..build(1, Transition::Start, "succeeded") };
    let step = plan(OperationKind::Start, Progress::Accepted, &Seen::Build(doubtful), &Clock::at(Utc::now()));
    assert_eq!(step, OperationStep::Wait);
}

/// As after a server was stopped with its agents and restarted before the end of a build was recorded.
#[test]
fn a_newer_build_towards_the_same_end_is_followed_and_one_against_it_ends_the_operation() {
    let newest = |transition: Transition| Seen::Build(build(3, transition, "running"));
    let older = Progress::Following { build: 1, ended_at: None };
    let step = |kind, transition| plan(kind, older, &newest(transition), &Clock::at(Utc::now()));
    let (follow, overtaken) = (OperationStep::Follow { build: 3 }, OperationStep::Fail(Cause::Overtaken));
    for kind in [OperationKind::Create, OperationKind::Start] {
        assert_eq!(
            [step(kind, Transition::Start), step(kind, Transition::Stop)],
            [follow.clone(), overtaken.clone()]
        );
    }
    let stop = [Transition::Stop, Transition::Start].map(|transition| step(OperationKind::Stop, transition));
    assert_eq!(stop, [follow, overtaken]);
}

#[test]
fn work_is_saved_before_the_delete_is_sent_and_only_within_its_time() {
    let now = Utc::now();
    let send = OperationStep::Send { request: Request::Delete, base_build: 3 };
    let first = |rescue: Option<&RescueOutcome>| rescue_first(send.clone(), rescue, &Clock::at(now));
    assert_eq!(
        first(Some(&RescueOutcome::Wanted)),
        OperationStep::Rescue { until: now + Limits::NORMAL.rescue }
    );
    let trying = |age: i64| RescueOutcome::Trying { since: now - TimeDelta::seconds(age) };
    assert_eq!(first(Some(&trying(4))), OperationStep::Rescue { until: now + TimeDelta::seconds(6) });
    assert_eq!(first(Some(&trying(10))), send);
    for over in [None, Some(&RescueOutcome::Nothing)] {
        assert_eq!(first(over), send);
    }
    for other in [
        OperationStep::Wait,
        OperationStep::CancelBuild,
        OperationStep::Send { request: Request::Stop, base_build: 3 },
    ] {
        assert_eq!(rescue_first(other.clone(), Some(&RescueOutcome::Wanted), &Clock::at(now)), other);
    }
}

#[test]
fn a_clock_that_is_set_back_holds_nothing_up() {
    let stamp = start_of_time();
    let mut clock = Clock::at(stamp);
    clock.read(stamp - TimeDelta::hours(1), TimeDelta::zero());
    let after = |clock: &mut Clock, passed: TimeDelta| {
        clock.read(clock.now() + passed, passed);
        let stopped = Seen::Build(build(3, Transition::Stop, "succeeded"));
        let ended = Progress::Following { build: 3, ended_at: Some(stamp) };
        let sending = Progress::Sending { sent_at: stamp, base_build: 0 };
        let trying = RescueOutcome::Trying { since: stamp };
        let delete = OperationStep::Send { request: Request::Delete, base_build: 3 };
        [
            plan(OperationKind::Restart, ended, &stopped, clock),
            plan(OperationKind::Delete, sending, &Seen::Gone, clock),
            rescue_first(delete, Some(&trying), clock),
        ]
    };
    let until = stamp - TimeDelta::hours(1) + Limits::NORMAL.rescue;
    let waiting = [OperationStep::Wait, OperationStep::Wait, OperationStep::Rescue { until }];
    assert_eq!(after(&mut clock, TimeDelta::seconds(4)), waiting);
    let going_on = [
        OperationStep::Send { request: Request::Start, base_build: 3 },
        OperationStep::Finish,
        OperationStep::Send { request: Request::Delete, base_build: 3 },
    ];
    assert_eq!(after(&mut clock, TimeDelta::seconds(31)), going_on);
}

#[test]
fn what_others_build_is_waited_for_and_never_taken_for_our_own() {
    let step = |kind, transition, job: &str| {
        plan(kind, Progress::Accepted, &Seen::Build(build(3, transition, job)), &Clock::at(start_of_time()))
    };
    let cases = [
        (OperationKind::Start, Transition::Start, Request::Start),
        (OperationKind::Stop, Transition::Stop, Request::Stop),
        (OperationKind::Delete, Transition::Delete, Request::Delete),
    ];
    for (kind, transition, request) in cases {
        let steps = ["running", "failed", "succeeded"].map(|job| step(kind, transition.clone(), job));
        assert_eq!(
            steps,
            [OperationStep::Wait, OperationStep::Send { request, base_build: 3 }, OperationStep::Finish]
        );
    }
}
