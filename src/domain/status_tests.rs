//! Every row of the status table, and the property that any combination of words gives one status.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::domain::clock::Clock;

const AGENT: Uuid = Uuid::from_u128(1);
const OLD_AGENT: Uuid = Uuid::from_u128(2);

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn ago(seconds: i64) -> DateTime<Utc> {
    now() - TimeDelta::seconds(seconds)
}

fn build(status: &str, age: i64) -> Observation {
    Observation {
        build: Some(BuildSeen { status: BuildStatus::from_word(status), since: ago(age), error: None }),
        agents: vec![],
        report: None,
        task: TaskSeen::None,
        resting_at: None,
        agentless: false,
        stuck_after: TimeDelta::minutes(30),
        clock: Clock::at(now()),
    }
}

fn agent(connection: &str, lifecycle: &str) -> WorkspaceAgentSeen {
    WorkspaceAgentSeen {
        id: AGENT,
        connection: Connection::from_word(connection),
        lifecycle: Lifecycle::from_word(lifecycle),
        disconnected_at: None,
    }
}

fn running(agents: &[WorkspaceAgentSeen]) -> Observation {
    Observation { agents: agents.to_vec(), ..build("running", 10) }
}

fn ready() -> Observation {
    running(&[agent("connected", "ready")])
}

fn report(state: &str, age: i64) -> Option<ReportSeen> {
    Some(ReportSeen {
        agent_id: AGENT,
        state: AppState::from_word(state),
        message: "on it".into(),
        needs_answer: false,
        at: ago(age),
    })
}

fn verdict(seen: &Observation) -> (AgentStatus, String, Attention) {
    let Verdict { status, reason, attention } = judge(seen);
    (status, reason, attention)
}

fn expect(seen: &Observation, status: AgentStatus, reason: &str, attention: Attention) {
    assert_eq!(verdict(seen), (status, reason.to_owned(), attention), "{seen:?}");
}

/// A failed agent asks for attention, whatever the failure.
fn asked_by(status: AgentStatus) -> Attention {
    if status == AgentStatus::Failed { Attention::Unreachable } else { Attention::None }
}

#[test]
fn a_build_that_is_not_running_gives_its_own_word() {
    let rows = [
        ("pending", AgentStatus::Pending, "the build is waiting for a provisioner"),
        ("starting", AgentStatus::Starting, "the workspace is being built"),
        ("stopping", AgentStatus::Stopping, "the workspace is stopping"),
        ("stopped", AgentStatus::Stopped, "the workspace is stopped"),
        ("failed", AgentStatus::Failed, "the build failed"),
        ("canceling", AgentStatus::Canceling, "the build is being canceled"),
        ("canceled", AgentStatus::Canceled, "the build was canceled"),
        ("deleting", AgentStatus::Deleting, "the workspace is being deleted"),
        ("deleted", AgentStatus::Deleted, "the workspace is gone"),
        ("resting", AgentStatus::Failed, "Coder reports the unknown build status 'resting'"),
    ];
    for (word, status, reason) in rows {
        expect(&build(word, 0), status, reason, asked_by(status));
    }
    let none = Observation { build: None, ..build("running", 0) };
    expect(&none, AgentStatus::Failed, "Coder shows no build", Attention::Unreachable);
}

#[test]
fn a_failed_build_carries_coders_own_words() {
    let mut seen = build("failed", 0);
    seen.build.as_mut().unwrap().error = Some("terraform apply: exit status 1".into());
    expect(
        &seen,
        AgentStatus::Failed,
        "the build failed: terraform apply: exit status 1",
        Attention::Unreachable,
    );
}

#[test]
fn a_workspace_without_a_ready_agent_is_starting() {
    let rows = [
        ("connecting", "created", "the workspace agent has not connected yet"),
        ("connected", "created", "the workspace agent has connected"),
        ("connected", "starting", "the startup script is running"),
    ];
    expect(&running(&[]), AgentStatus::Starting, "the workspace has no agent yet", Attention::None);
    for (connection, lifecycle, reason) in rows {
        expect(&running(&[agent(connection, lifecycle)]), AgentStatus::Starting, reason, Attention::None);
    }
}

#[test]
fn an_agent_that_is_missing_or_unconnected_after_180_seconds_has_failed_unless_none_is_needed() {
    expect(&build("running", 180), AgentStatus::Starting, "the workspace has no agent yet", Attention::None);
    let late = build("running", 181);
    expect(
        &late,
        AgentStatus::Failed,
        "the workspace has no agent 180 s after its build",
        Attention::Unreachable,
    );
    let never = Observation { agents: vec![agent("connecting", "created")], ..late.clone() };
    let reason = "the workspace agent has not connected 180 s after the build";
    expect(&never, AgentStatus::Failed, reason, Attention::Unreachable);
    let agentless = Observation { agentless: true, ..late };
    expect(&agentless, AgentStatus::Idle, "ready for a task", Attention::None);
}

#[test]
fn a_short_disconnection_keeps_the_status_and_a_long_one_fails() {
    let gone = |age: i64| {
        let mut seen = running(&[agent("disconnected", "ready")]);
        seen.agents[0].disconnected_at = Some(ago(age));
        seen
    };
    expect(&gone(29), AgentStatus::Idle, "ready for a task", Attention::Unreachable);
    let busy = Observation { report: report("working", 40), ..gone(29) };
    expect(&busy, AgentStatus::Busy, "on it", Attention::Unreachable);
    expect(&gone(30), AgentStatus::Failed, "the workspace agent is disconnected", Attention::Unreachable);
    let unknown = running(&[agent("disconnected", "ready")]);
    expect(&unknown, AgentStatus::Failed, "the workspace agent is disconnected", Attention::Unreachable);
}

#[test]
fn broken_startup_and_shutdown_words_have_their_status() {
    let rows = [
        ("timeout", "created", AgentStatus::Failed, "the workspace agent did not connect in time"),
        ("connected", "start_error", AgentStatus::Failed, "the startup script exited with an error"),
        ("connected", "start_timeout", AgentStatus::Failed, "the startup script did not end in time"),
        ("connected", "shutting_down", AgentStatus::Stopping, "the workspace agent is shutting down"),
        ("connected", "shutdown_timeout", AgentStatus::Stopping, "the workspace agent is shutting down"),
        ("connected", "shutdown_error", AgentStatus::Stopping, "the workspace agent is shutting down"),
        ("connected", "off", AgentStatus::Stopping, "the workspace agent is shutting down"),
        ("asleep", "ready", AgentStatus::Failed, "the workspace agent reports the unknown status 'asleep'"),
        ("connected", "odd", AgentStatus::Failed, "the workspace agent reports the unknown lifecycle 'odd'"),
    ];
    for (connection, lifecycle, status, reason) in rows {
        expect(&running(&[agent(connection, lifecycle)]), status, reason, asked_by(status));
    }
}

#[test]
fn only_an_agent_that_another_start_helps_is_broken() {
    let away = |age: i64| {
        let mut seen = running(&[agent("disconnected", "ready")]);
        seen.agents[0].disconnected_at = Some(ago(age));
        seen
    };
    let silent = Observation { task: TaskSeen::Silent { since: ago(60) }, ..ready() };
    let starting = running(&[agent("connected", "starting")]);
    let failed = running(&[agent("connected", "start_error")]);
    let seen = [ready(), starting, away(29), away(30), silent, failed];
    let expected =
        [Fitness::Well, Fitness::Well, Fitness::Doubtful, Fitness::Broken, Fitness::Broken, Fitness::Broken];
    assert_eq!(seen.map(|seen| fitness(&seen)), expected);
}

#[test]
fn a_failed_agent_says_what_becomes_of_its_task() {
    let noted = |status, task: TaskSeen| {
        let mut verdict = Verdict::new(status, "so");
        verdict.note_task(&task);
        verdict.reason
    };
    let pending = || TaskSeen::Pending { since: ago(1) };
    let working = TaskSeen::Working { last_sign: ago(1) };
    let failed = AgentStatus::Failed;
    assert_eq!(noted(failed, TaskSeen::None), "so");
    assert_eq!(noted(failed, pending()), "so; a task is waiting for it");
    assert_eq!(noted(failed, working), "so; its task has not ended");
    assert_eq!(noted(AgentStatus::Busy, pending()), "so");
}

#[test]
fn among_several_agents_failed_beats_starting_beats_ready() {
    let (failed, starting, fine) =
        (agent("connected", "start_error"), agent("connected", "starting"), agent("connected", "ready"));
    assert_eq!(judge(&running(&[fine.clone(), starting.clone(), failed])).status, AgentStatus::Failed);
    assert_eq!(judge(&running(&[fine.clone(), starting])).status, AgentStatus::Starting);
    assert_eq!(judge(&running(&[fine.clone(), fine])).status, AgentStatus::Idle);
}

#[test]
fn a_ready_agent_is_what_its_newest_report_says() {
    expect(&ready(), AgentStatus::Idle, "ready for a task", Attention::None);
    let rows = [
        ("working", AgentStatus::Busy, "on it", Attention::None),
        ("idle", AgentStatus::Idle, "ready for a task", Attention::None),
        ("complete", AgentStatus::Idle, "on it", Attention::None),
        ("failure", AgentStatus::Idle, "on it", Attention::FailedTask),
        ("odd", AgentStatus::Idle, "the agent reports the unknown state 'odd'", Attention::None),
    ];
    for (state, status, reason, attention) in rows {
        expect(&Observation { report: report(state, 1), ..ready() }, status, reason, attention);
    }
}

#[test]
fn a_report_of_an_older_generation_says_nothing() {
    let mut seen = Observation { report: report("working", 1), ..ready() };
    seen.report.as_mut().unwrap().agent_id = OLD_AGENT;
    expect(&seen, AgentStatus::Idle, "ready for a task", Attention::None);
}

#[test]
fn our_own_task_keeps_an_agent_busy_whatever_it_reports() {
    let task = TaskSeen::Working { last_sign: ago(5) };
    let seen = Observation { task: task.clone(), report: report("idle", 9), ..ready() };
    expect(&seen, AgentStatus::Busy, "on it", Attention::None);
    expect(&Observation { task, ..ready() }, AgentStatus::Busy, "working on a task", Attention::None);
}

#[test]
fn a_question_and_a_failed_task_ask_for_attention_in_their_own_words() {
    let seen = |task| Observation { task, report: report("idle", 1), ..ready() };
    let asking = |question: Option<&str>| seen(TaskSeen::Asking { question: question.map(str::to_owned) });
    let failed = |outcome: Option<&str>| seen(TaskSeen::Failed { outcome: outcome.map(str::to_owned) });
    expect(&asking(Some("which one?")), AgentStatus::Idle, "which one?", Attention::NeedsInput);
    expect(&asking(None), AgentStatus::Idle, "on it", Attention::NeedsInput);
    expect(&failed(Some("no space left")), AgentStatus::Idle, "no space left", Attention::FailedTask);
    let unexplained = Observation { report: None, ..failed(None) };
    expect(&unexplained, AgentStatus::Idle, "the last task failed", Attention::FailedTask);
}

#[test]
fn a_task_on_its_way_out_of_reach_or_parked_keeps_the_agent_busy() {
    let at = "2027-01-15T08:00:00Z";
    let rows = [
        (
            TaskSeen::Pending { since: ago(1) },
            "a task is being delivered to the agent".to_owned(),
            Attention::None,
        ),
        (
            TaskSeen::Silent { since: now() },
            format!("the agent's app has not responded since {at}"),
            Attention::Unreachable,
        ),
        (TaskSeen::Parked { until: now() }, format!("paused by a usage limit until {at}"), Attention::Parked),
    ];
    for (task, reason, attention) in rows {
        expect(&Observation { task, ..ready() }, AgentStatus::Busy, &reason, attention);
    }
}

#[test]
fn a_report_of_work_ends_when_the_app_itself_says_that_it_waits() {
    let rested = |at| Observation { report: report("working", 10), resting_at: Some(ago(at)), ..ready() };
    expect(&rested(20), AgentStatus::Busy, "on it", Attention::None);
    expect(&rested(5), AgentStatus::Idle, "ready for a task", Attention::None);
}

#[test]
fn a_task_that_does_not_reach_an_agent_that_is_up_is_stuck() {
    let waiting = |since: i64, age: i64| Observation {
        task: TaskSeen::Pending { since: ago(since * 60) },
        agents: vec![agent("connected", "ready")],
        ..build("running", age * 60)
    };
    let on_its_way = "a task is being delivered to the agent";
    expect(&waiting(30, 90), AgentStatus::Busy, on_its_way, Attention::None);
    expect(&waiting(90, 30), AgentStatus::Busy, on_its_way, Attention::None);
    let reason = "a task has not been delivered to the agent for 31 min";
    expect(&waiting(31, 90), AgentStatus::Busy, reason, Attention::Stuck);
    let after_another = Observation { report: report("complete", 60), ..waiting(90, 90) };
    expect(&after_another, AgentStatus::Busy, on_its_way, Attention::None);
}

#[test]
fn an_agent_without_a_task_that_says_it_works_is_busy_until_its_app_waits() {
    let reporting = |age, resting_at| Observation {
        task: TaskSeen::Reported { work: "reading".into(), at: ago(age) },
        resting_at,
        ..ready()
    };
    expect(&reporting(5, None), AgentStatus::Busy, "reading", Attention::None);
    expect(&reporting(5, Some(ago(9))), AgentStatus::Busy, "reading", Attention::None);
    expect(&reporting(5, Some(ago(1))), AgentStatus::Idle, "ready for a task", Attention::None);
    expect(&reporting(31 * 60, None), AgentStatus::Busy, "no activity for 31 min", Attention::Stuck);
}

#[test]
fn busy_without_a_sign_of_life_is_stuck_but_still_busy() {
    let at_limit = Observation { report: report("working", 30 * 60), ..ready() };
    expect(&at_limit, AgentStatus::Busy, "on it", Attention::None);
    let silent = Observation { report: report("working", 31 * 60), ..ready() };
    expect(&silent, AgentStatus::Busy, "no activity for 31 min", Attention::Stuck);
    let output = Observation { task: TaskSeen::Working { last_sign: ago(5) }, ..silent.clone() };
    expect(&output, AgentStatus::Busy, "on it", Attention::None);
    let ours = Observation { task: TaskSeen::Working { last_sign: ago(32 * 60) }, ..silent };
    expect(&ours, AgentStatus::Busy, "no activity for 31 min", Attention::Stuck);
}

fn word(known: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![4 => proptest::sample::select(known).prop_map(str::to_owned), 1 => "[a-z_]{0,12}"]
}

prop_compose! {
    fn any_agent()(connection in word(Connection::KNOWN), lifecycle in word(Lifecycle::KNOWN), gone in proptest::option::of(-100i64..100_000)) -> WorkspaceAgentSeen {
        WorkspaceAgentSeen { disconnected_at: gone.map(ago), ..agent(&connection, &lifecycle) }
    }
}

prop_compose! {
    fn any_observation()(
        status in proptest::option::of(word(BuildStatus::KNOWN)),
        age in -1000i64..1_000_000,
        agents in proptest::collection::vec(any_agent(), 0..4),
        state in proptest::option::of(word(AppState::KNOWN)),
        task in prop_oneof![Just(TaskSeen::None), (0i64..100_000).prop_map(|s| TaskSeen::Pending { since: ago(s) }), (0i64..100_000).prop_map(|s| TaskSeen::Reported { work: "on it".into(), at: ago(s) }), Just(TaskSeen::Asking { question: None }), Just(TaskSeen::Failed { outcome: None }), Just(TaskSeen::Silent { since: ago(40) }), Just(TaskSeen::Parked { until: ago(-40) }), (0i64..100_000).prop_map(|s| TaskSeen::Working { last_sign: ago(s) })],
        agentless: bool,
    ) -> Observation {
        let base = build(status.as_deref().unwrap_or("running"), age);
        Observation {
            build: status.is_some().then_some(base.build.clone()).flatten(),
            agents, task, agentless,
            report: state.and_then(|state| report(&state, age)),
            ..base
        }
    }
}

proptest! {
    #[test]
    fn any_combination_of_words_gives_one_status_with_a_reason(seen in any_observation()) {
        let first = judge(&seen);
        prop_assert_eq!(&first, &judge(&seen));
        prop_assert!(!first.reason.is_empty());
        prop_assert!(AgentStatus::ALL.contains(&first.status));
        let is_up = seen.build.as_ref().is_some_and(|build| build.status == BuildStatus::Running);
        prop_assert!(is_up || !first.status.is_ready(), "only a running build can be busy or idle");
        prop_assert!(first.status.is_ready()
            || (first.status == AgentStatus::Canceled && seen.task.is_open())
            || first.attention == asked_by(first.status));
    }
}

#[test]
fn a_canceled_agent_asks_for_attention_while_a_task_of_it_is_open() {
    let noted = |task: TaskSeen| {
        let seen = Observation { task, ..build("canceled", 5) };
        let mut verdict = judge(&seen);
        verdict.note_task(&seen.task);
        (verdict.status, verdict.reason, verdict.attention)
    };
    let canceled =
        |note: &str, attention| (AgentStatus::Canceled, format!("the build was canceled{note}"), attention);
    assert_eq!(noted(TaskSeen::None), canceled("", Attention::None));
    let waits = canceled("; a task is waiting for it", Attention::Unreachable);
    assert_eq!(noted(TaskSeen::Pending { since: ago(9) }), waits);
    assert_eq!(noted(TaskSeen::Parked { until: ago(-9) }), waits);
    let goes_on = canceled("; its task has not ended", Attention::Unreachable);
    assert_eq!(noted(TaskSeen::Working { last_sign: ago(9) }), goes_on);
}
