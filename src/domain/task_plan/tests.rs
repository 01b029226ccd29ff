//! Every rule of the planner.

use std::sync::LazyLock;

use chrono::TimeDelta;
use uuid::Uuid;

use super::*;
use crate::domain::app::{AgentApiSeen, MessageSeen, RunnerSeen, Speaker, TurnEnd, TurnSeen};
use crate::domain::history::HistoryLine;
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{Cancel, CancelCause, Claim, ClaimKind, TaskOrigin, TaskSource, TaskWork};
use crate::domain::words::AppState;

pub(super) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

pub(super) fn ago(seconds: i64) -> DateTime<Utc> {
    now() - TimeDelta::seconds(seconds)
}

pub(super) fn task(origin: TaskOrigin) -> Task {
    let entry = HistoryLine {
        agent_id: AgentId(Uuid::from_u128(1)),
        message: "do  it\nnow".into(),
        source: TaskSource::Manager,
        generation: 1,
        created_at: ago(60),
    };
    Task::accepted(TaskId(Uuid::from_u128(7)), entry, TaskWork::fresh(origin))
}

pub(super) fn given() -> Task {
    task(TaskOrigin::Given)
}

pub(super) fn sending(channel: Channel, seconds: i64) -> Task {
    let mut task = given();
    task.send(channel, Some(4), (1, ago(seconds)));
    task
}

pub(super) fn taken(channel: Channel) -> Task {
    let mut task = given();
    task.mark_delivered(channel, Some(5), (1, ago(20)));
    task
}

fn claim(kind: ClaimKind, text: &str, seconds: i64) -> Option<Claim> {
    Some(Claim { kind, text: text.into(), at: ago(seconds) })
}

pub(super) fn turn(task: &Task, state: TurnState) -> TurnSeen {
    TurnSeen { key: Some(task.key()), is_prompt: false, accepted_at: ago(20), state }
}

pub(super) fn runner(is_stable: bool, turns: Vec<TurnSeen>) -> AppSeen {
    AppSeen::Runner(RunnerSeen { is_stable, turns, n_forgotten: 0, git: None, messages: Vec::new() })
}

pub(super) fn message(id: i64, role: Speaker, content: &str) -> MessageSeen {
    MessageSeen { id, role, content: content.into(), time: ago(15) }
}

pub(super) fn agent_api(is_stable: bool, messages: Vec<MessageSeen>) -> AppSeen {
    AppSeen::AgentApi(AgentApiSeen { is_stable, messages })
}

/// The time in these tests.
static CLOCK: LazyLock<Clock> = LazyLock::new(|| Clock::at(now()));

pub(super) fn facts<'a>(task: &'a Task, app: &'a AppSeen) -> Facts<'a> {
    Facts {
        task,
        reach: Reach::Ready,
        generation: 1,
        unstopped_since: 1,
        app,
        report: None,
        quiet_since: Some(ago(60)),
        interrupting_since: Some(ago(60)),
        signaling: None,
        run: None,
        clock: &CLOCK,
    }
}

fn report(state: &str, message: &str, seconds: i64) -> ReportSeen {
    ReportSeen {
        agent_id: Uuid::nil(),
        state: AppState::from_word(state),
        message: message.into(),
        needs_answer: false,
        at: ago(seconds),
    }
}

pub(super) fn ends(step: &TaskStep) -> Option<(EndState, &str, Escalation)> {
    match step {
        TaskStep::End(ending) => {
            Some((ending.state, ending.outcome.as_deref().unwrap_or_default(), ending.reached))
        }
        _ => None,
    }
}

#[test]
fn an_idle_agent_gets_the_task_and_a_busy_agent_is_waited_for() {
    let free = runner(true, vec![]);
    assert_eq!(plan(&facts(&given(), &free)), TaskStep::Send { channel: Channel::Runner, base: None });
    let busy = runner(false, vec![]);
    assert_eq!(plan(&facts(&given(), &busy)), TaskStep::Wait);
    let api = agent_api(true, vec![message(4, Speaker::Agent, "hello")]);
    assert_eq!(plan(&facts(&given(), &api)), TaskStep::Send { channel: Channel::AgentApi, base: Some(4) });
    assert_eq!(plan(&facts(&given(), &agent_api(false, vec![]))), TaskStep::Wait);
    let mut urgent = given();
    urgent.work.is_urgent = true;
    assert_eq!(plan(&facts(&urgent, &busy)), TaskStep::Interrupt);
    let silent = AppSeen::Silent { reason: "x".into() };
    assert_eq!(plan(&facts(&given(), &silent)), TaskStep::Wait);
    let starting = Facts { reach: Reach::Away, app: &AppSeen::Unasked, ..facts(&urgent, &free) };
    assert_eq!(plan(&starting), TaskStep::Wait, "held until it is ready");
    let absent = plan(&facts(&given(), &AppSeen::Absent));
    assert_eq!(absent, TaskStep::Send { channel: Channel::Exec, base: None });
}

#[test]
fn an_app_counts_as_foreign_only_after_the_grace_period() {
    let seen = |app, quiet_since| plan(&Facts { quiet_since, ..facts(&given(), app) });
    assert_eq!(seen(&AppSeen::Foreign, None), TaskStep::Wait);
    assert_eq!(seen(&AppSeen::Foreign, Some(ago(4))), TaskStep::Wait);
    let by_run = TaskStep::Send { channel: Channel::Exec, base: None };
    assert_eq!(seen(&AppSeen::Foreign, Some(ago(5))), by_run);
    // A task never changes its channel.
    let unconfirmed = sending(Channel::AgentApi, 5);
    assert_eq!(plan(&facts(&unconfirmed, &AppSeen::Foreign)), TaskStep::Wait);
    assert_eq!(plan(&facts(&sending(Channel::Runner, 500), &AppSeen::Foreign)), TaskStep::Wait);
    let free = runner(true, vec![]);
    assert_eq!(plan(&facts(&sending(Channel::Exec, 5), &free)), by_run);
}

#[test]
fn without_an_app_a_run_executes_the_task_once_and_has_its_result() {
    let by_run = |task: &Task, run: Option<&TurnState>| plan(&Facts { run, ..facts(task, &AppSeen::Absent) });
    let (unconfirmed, mut begun) = (sending(Channel::Exec, 5), taken(Channel::Exec));
    assert_eq!(by_run(&unconfirmed, None), TaskStep::Send { channel: Channel::Exec, base: None });
    let take = TaskStep::MarkDelivered { channel: Channel::Exec, base: None };
    assert_eq!(by_run(&unconfirmed, Some(&TurnState::Queued)), take);
    assert_eq!(by_run(&begun, Some(&TurnState::Working)), TaskStep::Wait);
    let ended = |end| TurnState::Ended(end);
    let complete = ended(TurnEnd::Complete { text: "did it".into() });
    assert_eq!(ends(&by_run(&begun, Some(&complete))), Some((EndState::Done, "did it", Escalation::None)));
    let redelivery = TaskStep::Resume {
        reason: "the agent was stopped before the task began",
        redelivery: Redelivery::FullText,
    };
    assert_eq!(by_run(&begun, Some(&ended(TurnEnd::Unbegun))), redelivery);
    let first = begun.run();
    begun.resume(Redelivery::FullText);
    assert_eq!((first.0 == begun.id.0, first == begun.run()), (true, false), "another attempt, another run");
    let mut claimed = taken(Channel::Exec);
    claimed.work.claim = claim(ClaimKind::Failure, "no way", 29);
    assert_eq!(by_run(&claimed, Some(&TurnState::Working)), TaskStep::Wait, "its end is seen");
    claimed.work.claim = claim(ClaimKind::Failure, "no way", 30);
    assert_eq!(by_run(&claimed, Some(&TurnState::Working)), TaskStep::Interrupt);
    assert_eq!(
        ends(&by_run(&claimed, Some(&complete))),
        Some((EndState::Failed, "no way", Escalation::None))
    );
    let mut canceled = taken(Channel::Exec);
    canceled.work.cancel = Some(Cancel { cause: CancelCause::Request, at: ago(1), may_stop: false });
    assert_eq!(by_run(&canceled, Some(&TurnState::Working)), TaskStep::Interrupt);
    let end = (EndState::Canceled, "it was interrupted on request", Escalation::Signals);
    assert_eq!(ends(&by_run(&canceled, Some(&ended(TurnEnd::Interrupted)))), Some(end));
}

#[test]
fn a_task_is_not_repeated_on_a_runner_that_dropped_its_record() {
    let unconfirmed = sending(Channel::Runner, 500);
    let forgotten = runner(true, vec![turn(&unconfirmed, TurnState::Ended(TurnEnd::Forgotten))]);
    assert_eq!(
        plan(&facts(&unconfirmed, &forgotten)),
        TaskStep::MarkDelivered { channel: Channel::Runner, base: None }
    );
    let outcome = "the agent finished the task and lost its result; it is not run again";
    let step = plan(&facts(&taken(Channel::Runner), &forgotten));
    assert_eq!(ends(&step), Some((EndState::Failed, outcome, Escalation::None)));
    let prompt =
        TurnSeen { key: None, is_prompt: true, ..turn(&unconfirmed, TurnState::Ended(TurnEnd::Forgotten)) };
    let spec = task(TaskOrigin::Spec);
    let step = plan(&facts(&spec, &runner(true, vec![prompt])));
    assert_eq!(step, TaskStep::MarkDelivered { channel: Channel::Runner, base: None });
}

#[test]
fn a_task_is_not_repeated_on_a_runner_that_lost_its_journal() {
    let task = sending(Channel::Runner, 15);
    let redelivery = TaskStep::Send { channel: Channel::Runner, base: None };
    let other_start = |app: AppSeen| plan(&Facts { generation: 3, ..facts(&task, &app) });
    assert_eq!(ends(&other_start(runner(true, vec![]))).map(|end| end.0), Some(EndState::Failed));
    let mut older = turn(&given(), TurnState::Ended(TurnEnd::Interrupted));
    older.key = Some("of an earlier one".into());
    assert_eq!(other_start(runner(true, vec![older])), redelivery, "what is older is still known");
    assert_eq!(plan(&facts(&task, &runner(true, vec![]))), redelivery, "the same start has the same journal");
}

#[test]
fn a_send_is_repeated_to_our_runner_and_never_to_another_agent() {
    let task = sending(Channel::Runner, 500);
    let nothing = runner(true, vec![]);
    assert_eq!(plan(&facts(&task, &nothing)), TaskStep::Send { channel: Channel::Runner, base: None });
    let there = runner(false, vec![turn(&task, TurnState::Queued)]);
    assert_eq!(plan(&facts(&task, &there)), TaskStep::MarkDelivered { channel: Channel::Runner, base: None });

    let recent = sending(Channel::AgentApi, 30);
    let quiet = agent_api(true, vec![message(4, Speaker::Agent, "hello")]);
    assert_eq!(plan(&facts(&recent, &quiet)), TaskStep::Wait);
    let old = sending(Channel::AgentApi, 36);
    let delivery_unknown = plan(&facts(&old, &quiet));
    assert_eq!(ends(&delivery_unknown).map(|end| end.0), Some(EndState::Failed));
    let same_text_from_before = agent_api(true, vec![message(4, Speaker::User, "do it now")]);
    assert_eq!(ends(&plan(&facts(&old, &same_text_from_before))).map(|end| end.0), Some(EndState::Failed));
    let shown = agent_api(true, vec![message(5, Speaker::User, " do it\n now")]);
    assert_eq!(
        plan(&facts(&old, &shown)),
        TaskStep::MarkDelivered { channel: Channel::AgentApi, base: Some(5) }
    );
    let mut answered = recent;
    answered.mark_acknowledged();
    let running = agent_api(false, vec![message(4, Speaker::Agent, "hello")]);
    assert_eq!(
        plan(&facts(&answered, &running)),
        TaskStep::MarkDelivered { channel: Channel::AgentApi, base: Some(4) }
    );
    assert_eq!(plan(&facts(&answered, &quiet)), TaskStep::Wait, "an answer alone is no delivery");
}

#[test]
fn the_text_of_a_turn_is_the_outcome_of_its_task() {
    let task = taken(Channel::Runner);
    let text = || "words".to_owned();
    let rows = [
        (TurnEnd::Complete { text: text() }, EndState::Done, "words"),
        (TurnEnd::Failed { text: text() }, EndState::Failed, "words"),
        (TurnEnd::Question { text: text() }, EndState::Done, "words"),
        (TurnEnd::Complete { text: "words?".into() }, EndState::Done, "words?"),
        (TurnEnd::Interrupted, EndState::Canceled, "it was interrupted inside the workspace"),
        (
            TurnEnd::Stopped,
            EndState::Canceled,
            "interrupted: the workspace was stopped during the task, and its engine cannot resume it; it is not run again",
        ),
        (TurnEnd::Crashed, EndState::Failed, "the agent's runner ended during the task; it is not run again"),
        (TurnEnd::Unknown { word: text() }, EndState::Failed, "it ended with the unknown state 'words'"),
    ];
    for (end, state, outcome) in rows {
        let is_question = outcome == "words?" || matches!(end, TurnEnd::Question { .. });
        let step = plan(&facts(&task, &runner(true, vec![turn(&task, TurnState::Ended(end))])));
        assert_eq!(ends(&step).map(|end| (end.0, end.1)), Some((state, outcome)));
        assert_eq!(matches!(step, TaskStep::End(Ending { needs_answer: true, .. })), is_question);
    }
    assert_eq!(ends(&plan(&facts(&task, &runner(true, vec![])))).map(|end| end.0), Some(EndState::Failed));
    let mut canceled = task;
    canceled.work.cancel = Some(Cancel { cause: CancelCause::Request, at: ago(1), may_stop: false });
    let crashed = runner(true, vec![turn(&canceled, TurnState::Ended(TurnEnd::Crashed))]);
    assert_eq!(ends(&plan(&facts(&canceled, &crashed))).map(|end| end.0), Some(EndState::Canceled));
}

#[test]
fn a_usage_limit_with_a_time_parks_the_task_and_the_time_resumes_it() {
    let mut task = taken(Channel::Runner);
    let limit = |text: &str| {
        let end = TurnEnd::Failed { text: text.into() };
        runner(true, vec![turn(&task, TurnState::Ended(end))])
    };
    let known = limit("usage limit reached|1800003600");
    let until = now() + TimeDelta::hours(1);
    let reason = "usage limit reached|1800003600".to_owned();
    assert_eq!(plan(&facts(&task, &known)), TaskStep::Park { until, reason });
    let open = limit("usage limit reached");
    assert_eq!(
        ends(&plan(&facts(&task, &open))),
        Some((EndState::Failed, "usage limit reached", Escalation::None))
    );
    task.work.parked_until = Some(until);
    assert_eq!(plan(&facts(&task, &known)), TaskStep::Wait);
    let over = Clock::at(until);
    let later = |task: &Task| plan(&Facts { clock: &over, ..facts(task, &known) });
    assert_eq!(
        later(&task),
        TaskStep::Resume { reason: "the usage limit has reset", redelivery: Redelivery::FullText }
    );
    task.resume(Redelivery::FullText);
    assert_eq!(later(&task), TaskStep::Send { channel: Channel::Runner, base: None }, "under another key");
    assert_eq!(task.key(), format!("{}.2", task.id));
}

#[test]
fn a_cancel_interrupts_then_signals_then_stops_if_permitted_and_records_the_last_step() {
    let canceled = |seconds, may_stop| {
        let mut task = taken(Channel::Runner);
        task.work.cancel = Some(Cancel { cause: CancelCause::Request, at: ago(seconds), may_stop });
        task
    };
    let working = |task: &Task| runner(false, vec![turn(task, TurnState::Working)]);
    let recent = canceled(9, true);
    assert_eq!(plan(&facts(&recent, &working(&recent))), TaskStep::Interrupt);
    let late = canceled(10, true);
    let signaled = |task: &Task, signaling: Option<(i64, bool)>| {
        let signaling = signaling.map(|(seconds, are_gone)| Signaling { since: ago(seconds), are_gone });
        plan(&Facts { signaling, ..facts(task, &working(task)) })
    };
    assert_eq!(signaled(&late, None), TaskStep::Signal);
    assert_eq!(signaled(&late, Some((9, false))), TaskStep::Signal, "until it works");
    assert_eq!(signaled(&late, Some((9, true))), TaskStep::Wait, "for what the runner says of it");
    assert_eq!(signaled(&late, Some((10, false))), TaskStep::StopWorkspace);
    let given_up = canceled(10, false);
    let outcome = "the agent did not react to the interrupt";
    let end = (EndState::Canceled, outcome, Escalation::None);
    assert_eq!(ends(&signaled(&given_up, Some((10, false)))), Some(end));
    let outcome = "the agent did not react, so its processes were terminated";
    let end = (EndState::Canceled, outcome, Escalation::Signals);
    assert_eq!(ends(&signaled(&given_up, Some((10, true)))), Some(end));
    let mut fell = canceled(20, false);
    fell.work.reached = Escalation::Signals;
    let crashed = TurnState::Ended(TurnEnd::Failed { text: "the engine ended with signal 9".into() });
    let step = plan(&facts(&fell, &runner(true, vec![turn(&fell, crashed)])));
    assert_eq!(ends(&step).map(|(state, outcome, _)| (state, outcome)), Some((EndState::Canceled, outcome)));
    let mut foreign = taken(Channel::AgentApi);
    foreign.work.cancel = Some(Cancel { cause: CancelCause::Request, at: ago(10), may_stop: true });
    let busy = agent_api(false, vec![]);
    assert_eq!(plan(&facts(&foreign, &busy)), TaskStep::StopWorkspace, "no process of it is known");
    let unasked = Facts { interrupting_since: None, ..facts(&given_up, &AppSeen::Absent) };
    let still = working(&given_up);
    assert_eq!(
        plan(&Facts { app: &still, ..unasked }),
        TaskStep::Interrupt,
        "it is asked before it is given up"
    );
    let interrupted_app = runner(true, vec![turn(&recent, TurnState::Ended(TurnEnd::Interrupted))]);
    let outcome = "it was interrupted on request";
    assert_eq!(
        ends(&plan(&facts(&recent, &interrupted_app))),
        Some((EndState::Canceled, outcome, Escalation::Interrupt))
    );
    let down = Facts { reach: Reach::Down, app: &AppSeen::Unasked, ..facts(&late, &interrupted_app) };
    assert_eq!(ends(&plan(&down)), Some((EndState::Canceled, "the workspace was stopped", Escalation::Stop)));
    let silent = AppSeen::Silent { reason: "hangs".into() };
    assert_eq!(plan(&facts(&late, &silent)), TaskStep::Signal, "even without a response");
    let mut waiting = given();
    waiting.work.cancel = Some(Cancel { cause: CancelCause::Request, at: now(), may_stop: false });
    assert_eq!(ends(&plan(&facts(&waiting, &silent))).map(|end| end.0), Some(EndState::Canceled));
}

#[test]
fn a_task_that_takes_too_long_is_interrupted_and_timed_out() {
    let mut task = taken(Channel::Runner);
    (task.work.timeout, task.work.worked) = (Some(TimeDelta::seconds(21)), TimeDelta::seconds(20));
    let working = runner(false, vec![turn(&task, TurnState::Working)]);
    assert_eq!(plan(&facts(&task, &working)), TaskStep::Wait);
    task.work.timeout = Some(TimeDelta::seconds(20));
    assert_eq!(plan(&facts(&task, &working)), TaskStep::Interrupt);
    let ended = runner(true, vec![turn(&task, TurnState::Ended(TurnEnd::Interrupted))]);
    let step = plan(&facts(&task, &ended));
    assert_eq!(ends(&step), Some((EndState::TimedOut, "it exceeded its timeout", Escalation::Interrupt)));
}

pub(super) fn claimed(kind: ClaimKind, text: &str, seconds: i64) -> Task {
    let mut task = taken(Channel::Runner);
    task.work.claim = claim(kind, text, seconds);
    task
}

#[test]
fn reports_count_only_from_the_delivery_of_the_task() {
    let task = taken(Channel::AgentApi);
    let app = agent_api(true, vec![message(5, Speaker::User, "do it now")]);
    let by = |report: &ReportSeen| plan(&Facts { report: Some(report), ..facts(&task, &app) });
    assert_eq!(by(&report("complete", "of the one before", 21)), TaskStep::Wait);
    assert_eq!(
        ends(&by(&report("complete", "did it", 19))),
        Some((EndState::Done, "did it", Escalation::None))
    );
    assert_eq!(
        ends(&by(&report("failure", "could not", 19))),
        Some((EndState::Failed, "could not", Escalation::None))
    );
    assert_eq!(by(&report("working", "on it", 1)), TaskStep::Wait);
    let busy = agent_api(false, vec![message(5, Speaker::User, "do it now")]);
    let while_busy = |report: &ReportSeen| plan(&Facts { report: Some(report), ..facts(&task, &busy) });
    assert_eq!(while_busy(&report("complete", "did it", 19)), TaskStep::Wait, "it still works");
    let answered =
        agent_api(true, vec![message(5, Speaker::User, "x"), message(6, Speaker::Agent, " there ")]);
    assert_eq!(ends(&plan(&facts(&task, &answered))), Some((EndState::Done, "there", Escalation::None)));
    let restarted = Facts { generation: 2, ..facts(&task, &answered) };
    assert_eq!(ends(&plan(&restarted)).map(|end| end.0), Some(EndState::Failed));
}

#[test]
fn an_answer_is_a_usage_limit_only_if_it_consists_of_the_notice() {
    let mut task = taken(Channel::AgentApi);
    let answer = |task: &Task, text: &str| {
        let app = agent_api(true, vec![message(5, Speaker::User, "x"), message(6, Speaker::Agent, text)]);
        plan(&facts(task, &app))
    };
    let notice = "You've hit your usage limit. Try again in 5 minutes.";
    let park = TaskStep::Park { until: now() + TimeDelta::minutes(5), reason: notice.to_owned() };
    assert_eq!(answer(&task, notice), park);
    let open = "Claude usage limit reached.";
    assert_eq!(ends(&answer(&task, open)), Some((EndState::Failed, open, Escalation::None)));
    let work = "I wrote the retry: if it says quota exceeded, try again in 5 minutes.";
    assert_eq!(ends(&answer(&task, work)), Some((EndState::Done, work, Escalation::None)));
    task.work.claim = claim(ClaimKind::Failure, "no way", 5);
    assert_eq!(ends(&answer(&task, work)), Some((EndState::Failed, "no way", Escalation::None)));
    task.work.claim = None;
    (task.work.timeout, task.work.worked) = (Some(TimeDelta::seconds(20)), TimeDelta::seconds(20));
    assert_eq!(ends(&answer(&task, "interrupted")).map(|end| end.0), Some(EndState::TimedOut));
}

#[test]
fn a_spec_is_followed_if_the_agent_shows_it_and_sent_if_not() {
    let spec = task(TaskOrigin::Spec);
    let prompt = TurnSeen { key: None, is_prompt: true, accepted_at: ago(9), state: TurnState::Working };
    let took = TaskStep::MarkDelivered { channel: Channel::Runner, base: None };
    assert_eq!(plan(&facts(&spec, &runner(false, vec![prompt]))), took);
    let nothing = runner(true, vec![]);
    let fresh = |app| Facts { quiet_since: Some(ago(4)), ..facts(&spec, app) };
    assert_eq!(plan(&fresh(&nothing)), TaskStep::Wait);
    assert_eq!(plan(&facts(&spec, &nothing)), TaskStep::Send { channel: Channel::Runner, base: None });

    let greeting = || message(0, Speaker::Agent, "hello");
    let greeted = agent_api(true, vec![greeting()]);
    assert_eq!(plan(&fresh(&greeted)), TaskStep::Wait);
    assert_eq!(plan(&facts(&spec, &greeted)), TaskStep::Send { channel: Channel::AgentApi, base: Some(0) });
    let shown = agent_api(false, vec![greeting(), message(1, Speaker::User, "do it now")]);
    assert_eq!(plan(&fresh(&shown)), TaskStep::MarkDelivered { channel: Channel::AgentApi, base: Some(1) });
    let unseen = agent_api(false, vec![greeting()]);
    assert_eq!(
        plan(&facts(&spec, &unseen)),
        TaskStep::MarkDelivered { channel: Channel::AgentApi, base: Some(0) }
    );
    let working = report("working", "on it", 3);
    let by_report = Facts { report: Some(&working), ..fresh(&AppSeen::Absent) };
    assert_eq!(plan(&by_report), TaskStep::MarkDelivered { channel: Channel::Reports, base: None });
    let untold = plan(&facts(&spec, &AppSeen::Absent));
    assert_eq!(ends(&untold).map(|end| end.0), Some(EndState::Done));
}
