//! Every rule of the planner, and the property that against any agent and any loss a task is done once and ends.

use proptest::prelude::*;

use super::*;
use crate::domain::history::{HistoryEntry, NewTask};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{Cancel, TaskSource, TaskWork};
use uuid::Uuid;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn ago(seconds: i64) -> DateTime<Utc> {
    now() - TimeDelta::seconds(seconds)
}

fn task(origin: TaskOrigin) -> Task {
    let id = TaskId(Uuid::from_u128(7));
    let entry = HistoryEntry::task(NewTask {
        id,
        agent_id: AgentId(Uuid::from_u128(1)),
        message: "do  it\nnow".into(),
        source: TaskSource::Manager,
        generation: 1,
        created_at: ago(60),
    });
    Task { id, entry, work: TaskWork::fresh(origin) }
}

fn given() -> Task {
    task(TaskOrigin::Given)
}

fn sending(channel: Channel, seconds: i64) -> Task {
    let mut task = given();
    task.send(channel, Some(4), (1, ago(seconds)));
    task
}

fn taken(channel: Channel) -> Task {
    let mut task = given();
    task.take(channel, Some(5), (1, ago(20)));
    task
}

fn turn(task: &Task, state: TurnState) -> TurnSeen {
    TurnSeen { key: Some(task.key()), is_prompt: false, accepted_at: ago(20), state }
}

fn runner(is_stable: bool, turns: Vec<TurnSeen>) -> AppSeen {
    AppSeen::Runner(RunnerSeen { is_stable, turns, n_forgotten: 0, git: None, messages: Vec::new() })
}

fn message(id: i64, role: Speaker, content: &str) -> MessageSeen {
    MessageSeen { id, role, content: content.into(), time: ago(15) }
}

fn agent_api(is_stable: bool, messages: Vec<MessageSeen>) -> AppSeen {
    AppSeen::AgentApi(AgentApiSeen { is_stable, messages })
}

fn facts<'a>(task: &'a Task, app: &'a AppSeen) -> Facts<'a> {
    Facts {
        task,
        reach: Reach::Ready,
        generation: 1,
        app,
        report: None,
        quiet_since: Some(ago(60)),
        interrupting_since: Some(ago(60)),
        now: now(),
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

fn ends(step: &Step) -> Option<(TaskState, &str, Reached)> {
    match step {
        Step::End(ending) => {
            Some((ending.state, ending.outcome.as_deref().unwrap_or_default(), ending.reached))
        }
        _ => None,
    }
}

#[test]
fn a_free_agent_is_told_and_a_busy_one_is_waited_for() {
    let free = runner(true, vec![]);
    assert_eq!(plan(&facts(&given(), &free)), Step::Send { channel: Channel::Runner, base: None });
    let busy = runner(false, vec![]);
    assert_eq!(plan(&facts(&given(), &busy)), Step::Wait);
    let api = agent_api(true, vec![message(4, Speaker::Agent, "hello")]);
    assert_eq!(plan(&facts(&given(), &api)), Step::Send { channel: Channel::AgentApi, base: Some(4) });
    assert_eq!(plan(&facts(&given(), &agent_api(false, vec![]))), Step::Wait);
    let mut urgent = given();
    urgent.work.is_urgent = true;
    assert_eq!(plan(&facts(&urgent, &busy)), Step::Interrupt);
    let silent = AppSeen::Silent { reason: "x".into() };
    assert_eq!(plan(&facts(&given(), &silent)), Step::Wait);
    let starting = Facts { reach: Reach::Away, app: &AppSeen::Unasked, ..facts(&urgent, &free) };
    assert_eq!(plan(&starting), Step::Wait, "held until it is ready");
    let absent = plan(&facts(&given(), &AppSeen::Absent));
    assert_eq!(ends(&absent).map(|end| end.0), Some(TaskState::Failed));
}

#[test]
fn a_runner_that_has_forgotten_a_task_is_not_told_it_again() {
    let unconfirmed = sending(Channel::Runner, 500);
    let forgotten = runner(true, vec![turn(&unconfirmed, TurnState::Ended(TurnEnd::Forgotten))]);
    assert_eq!(plan(&facts(&unconfirmed, &forgotten)), Step::Take { channel: Channel::Runner, base: None });
    let outcome = "the agent was through with it and no longer knows how it went; it is not run again";
    let step = plan(&facts(&taken(Channel::Runner), &forgotten));
    assert_eq!(ends(&step), Some((TaskState::Failed, outcome, Reached::None)));
    let prompt =
        TurnSeen { key: None, is_prompt: true, ..turn(&unconfirmed, TurnState::Ended(TurnEnd::Forgotten)) };
    let spec = task(TaskOrigin::Spec);
    let step = plan(&facts(&spec, &runner(true, vec![prompt])));
    assert_eq!(step, Step::Take { channel: Channel::Runner, base: None });
}

#[test]
fn a_runner_that_lost_its_journal_in_a_restart_is_not_told_again() {
    let task = sending(Channel::Runner, 15);
    let again = Step::Send { channel: Channel::Runner, base: None };
    let other_start = |app: AppSeen| plan(&Facts { generation: 3, ..facts(&task, &app) });
    assert_eq!(ends(&other_start(runner(true, vec![]))).map(|end| end.0), Some(TaskState::Failed));
    let mut older = turn(&given(), TurnState::Ended(TurnEnd::Interrupted));
    older.key = Some("of an earlier one".into());
    assert_eq!(other_start(runner(true, vec![older])), again, "what is older is still known");
    assert_eq!(plan(&facts(&task, &runner(true, vec![]))), again, "the same start has the same journal");
}

#[test]
fn our_runner_may_be_told_again_and_any_other_agent_may_not() {
    let task = sending(Channel::Runner, 500);
    let nothing = runner(true, vec![]);
    assert_eq!(plan(&facts(&task, &nothing)), Step::Send { channel: Channel::Runner, base: None });
    let there = runner(false, vec![turn(&task, TurnState::Queued)]);
    assert_eq!(plan(&facts(&task, &there)), Step::Take { channel: Channel::Runner, base: None });

    let recent = sending(Channel::AgentApi, 30);
    let quiet = agent_api(true, vec![message(4, Speaker::Agent, "hello")]);
    assert_eq!(plan(&facts(&recent, &quiet)), Step::Wait);
    let old = sending(Channel::AgentApi, 36);
    let lost = plan(&facts(&old, &quiet));
    assert_eq!(ends(&lost).map(|end| end.0), Some(TaskState::Failed));
    let same_text_from_before = agent_api(true, vec![message(4, Speaker::User, "do it now")]);
    assert_eq!(ends(&plan(&facts(&old, &same_text_from_before))).map(|end| end.0), Some(TaskState::Failed));
    let shown = agent_api(true, vec![message(5, Speaker::User, " do it\n now")]);
    assert_eq!(plan(&facts(&old, &shown)), Step::Take { channel: Channel::AgentApi, base: Some(5) });
    let mut answered = recent;
    answered.answered();
    let running = agent_api(false, vec![message(4, Speaker::Agent, "hello")]);
    assert_eq!(plan(&facts(&answered, &running)), Step::Take { channel: Channel::AgentApi, base: Some(4) });
    assert_eq!(plan(&facts(&answered, &quiet)), Step::Wait, "an answer alone is no delivery");
}

#[test]
fn a_turn_ends_the_task_in_its_own_words() {
    let task = taken(Channel::Runner);
    let text = || "words".to_owned();
    let rows = [
        (TurnEnd::Complete { text: text() }, TaskState::Done, "words"),
        (TurnEnd::Failed { text: text() }, TaskState::Failed, "words"),
        (TurnEnd::Question { text: text() }, TaskState::Done, "words"),
        (TurnEnd::Interrupted, TaskState::Canceled, "somebody interrupted it in the workspace"),
        (TurnEnd::Stopped, TaskState::Canceled, "the workspace was stopped in the middle of it"),
        (
            TurnEnd::Crashed,
            TaskState::Failed,
            "the agent's runner ended in the middle of it; it is not run again",
        ),
        (TurnEnd::Unknown { word: text() }, TaskState::Failed, "it ended in a way we do not know: words"),
    ];
    for (end, state, outcome) in rows {
        let is_question = matches!(end, TurnEnd::Question { .. });
        let step = plan(&facts(&task, &runner(true, vec![turn(&task, TurnState::Ended(end))])));
        assert_eq!(ends(&step).map(|end| (end.0, end.1)), Some((state, outcome)));
        assert_eq!(matches!(step, Step::End(Ending { needs_answer: true, .. })), is_question);
    }
    assert_eq!(ends(&plan(&facts(&task, &runner(true, vec![])))).map(|end| end.0), Some(TaskState::Failed));
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
    assert_eq!(plan(&facts(&task, &known)), Step::Park { until, reason });
    let open = limit("usage limit reached");
    assert_eq!(
        ends(&plan(&facts(&task, &open))),
        Some((TaskState::Failed, "usage limit reached", Reached::None))
    );
    task.work.parked_until = Some(until);
    assert_eq!(plan(&facts(&task, &known)), Step::Wait);
    let later = |task: &Task| plan(&Facts { now: until, ..facts(task, &known) });
    assert_eq!(later(&task), Step::Resume);
    task.resume();
    assert_eq!(later(&task), Step::Send { channel: Channel::Runner, base: None }, "under another key");
    assert_eq!(task.key(), format!("{}.2", task.id));
}

#[test]
fn a_cancel_interrupts_then_stops_if_it_may_and_says_how_far_it_came() {
    let canceled = |seconds, may_stop| {
        let mut task = taken(Channel::Runner);
        task.work.cancel = Some(Cancel { at: ago(seconds), may_stop });
        task
    };
    let working = |task: &Task| runner(false, vec![turn(task, TurnState::Working)]);
    let recent = canceled(14, true);
    assert_eq!(plan(&facts(&recent, &working(&recent))), Step::Interrupt);
    let late = canceled(15, true);
    assert_eq!(plan(&facts(&late, &working(&late))), Step::StopWorkspace);
    let given_up = canceled(15, false);
    let step = plan(&facts(&given_up, &working(&given_up)));
    let outcome = "the agent did not react to the interruption";
    assert_eq!(ends(&step), Some((TaskState::Canceled, outcome, Reached::None)));
    let unasked = Facts { interrupting_since: None, ..facts(&given_up, &AppSeen::Absent) };
    let still = working(&given_up);
    assert_eq!(plan(&Facts { app: &still, ..unasked }), Step::Interrupt, "it is asked before it is given up");
    let heard = runner(true, vec![turn(&recent, TurnState::Ended(TurnEnd::Interrupted))]);
    let outcome = "it was interrupted as asked";
    assert_eq!(
        ends(&plan(&facts(&recent, &heard))),
        Some((TaskState::Canceled, outcome, Reached::Interrupt))
    );
    let down = Facts { reach: Reach::Down, app: &AppSeen::Unasked, ..facts(&late, &heard) };
    assert_eq!(ends(&plan(&down)), Some((TaskState::Canceled, "the workspace was stopped", Reached::Stop)));
    let silent = AppSeen::Silent { reason: "hangs".into() };
    assert_eq!(plan(&facts(&late, &silent)), Step::StopWorkspace, "also when nobody answers");
    let mut waiting = given();
    waiting.work.cancel = Some(Cancel { at: now(), may_stop: false });
    assert_eq!(ends(&plan(&facts(&waiting, &silent))).map(|end| end.0), Some(TaskState::Canceled));
}

#[test]
fn a_task_that_takes_too_long_is_interrupted_and_timed_out() {
    let mut task = taken(Channel::Runner);
    task.work.timeout = Some(TimeDelta::seconds(21));
    let working = runner(false, vec![turn(&task, TurnState::Working)]);
    assert_eq!(plan(&facts(&task, &working)), Step::Wait);
    task.work.timeout = Some(TimeDelta::seconds(20));
    assert_eq!(plan(&facts(&task, &working)), Step::Interrupt);
    let ended = runner(true, vec![turn(&task, TurnState::Ended(TurnEnd::Interrupted))]);
    let step = plan(&facts(&task, &ended));
    assert_eq!(
        ends(&step),
        Some((TaskState::TimedOut, "it took longer than it was given", Reached::Interrupt))
    );
}

#[test]
fn a_claim_ends_the_task_with_its_turn_or_a_moment_later() {
    let claimed = |seconds| {
        let mut task = taken(Channel::Runner);
        task.work.claim = Some(Claim { kind: ClaimKind::Complete, text: "claimed".into(), at: ago(seconds) });
        task
    };
    let fresh = claimed(9);
    assert_eq!(plan(&facts(&fresh, &runner(false, vec![turn(&fresh, TurnState::Working)]))), Step::Wait);
    let end = TurnState::Ended(TurnEnd::Complete { text: "the last words".into() });
    let over = runner(true, vec![turn(&fresh, end)]);
    assert_eq!(ends(&plan(&facts(&fresh, &over))), Some((TaskState::Done, "claimed", Reached::None)));
    let old = claimed(10);
    let step = plan(&facts(&old, &runner(false, vec![turn(&old, TurnState::Working)])));
    assert_eq!(ends(&step), Some((TaskState::Done, "claimed", Reached::None)));
}

#[test]
fn reports_tell_how_it_went_only_from_when_the_agent_had_the_task() {
    let task = taken(Channel::AgentApi);
    let app = agent_api(false, vec![message(5, Speaker::User, "do it now")]);
    let by = |report: &ReportSeen| plan(&Facts { report: Some(report), ..facts(&task, &app) });
    assert_eq!(by(&report("complete", "of the one before", 21)), Step::Wait);
    assert_eq!(
        ends(&by(&report("complete", "did it", 19))),
        Some((TaskState::Done, "did it", Reached::None))
    );
    assert_eq!(
        ends(&by(&report("failure", "could not", 19))),
        Some((TaskState::Failed, "could not", Reached::None))
    );
    assert_eq!(by(&report("working", "on it", 1)), Step::Wait);
    let answered =
        agent_api(true, vec![message(5, Speaker::User, "x"), message(6, Speaker::Agent, " there ")]);
    assert_eq!(ends(&plan(&facts(&task, &answered))), Some((TaskState::Done, "there", Reached::None)));
    let restarted = Facts { generation: 2, ..facts(&task, &answered) };
    assert_eq!(ends(&plan(&restarted)).map(|end| end.0), Some(TaskState::Failed));
}

#[test]
fn a_spec_is_followed_where_it_shows_and_told_where_it_does_not() {
    let spec = task(TaskOrigin::Spec);
    let prompt = TurnSeen { key: None, is_prompt: true, accepted_at: ago(9), state: TurnState::Working };
    let took = Step::Take { channel: Channel::Runner, base: None };
    assert_eq!(plan(&facts(&spec, &runner(false, vec![prompt]))), took);
    let nothing = runner(true, vec![]);
    let fresh = |app| Facts { quiet_since: Some(ago(4)), ..facts(&spec, app) };
    assert_eq!(plan(&fresh(&nothing)), Step::Wait);
    assert_eq!(plan(&facts(&spec, &nothing)), Step::Send { channel: Channel::Runner, base: None });

    let greeting = || message(0, Speaker::Agent, "hello");
    let greeted = agent_api(true, vec![greeting()]);
    assert_eq!(plan(&fresh(&greeted)), Step::Wait);
    assert_eq!(plan(&facts(&spec, &greeted)), Step::Send { channel: Channel::AgentApi, base: Some(0) });
    let shown = agent_api(false, vec![greeting(), message(1, Speaker::User, "do it now")]);
    assert_eq!(plan(&fresh(&shown)), Step::Take { channel: Channel::AgentApi, base: Some(1) });
    let unseen = agent_api(false, vec![greeting()]);
    assert_eq!(plan(&facts(&spec, &unseen)), Step::Take { channel: Channel::AgentApi, base: Some(0) });
    let working = report("working", "on it", 3);
    let by_report = Facts { report: Some(&working), ..fresh(&AppSeen::Absent) };
    assert_eq!(plan(&by_report), Step::Take { channel: Channel::Reports, base: None });
    let untold = plan(&facts(&spec, &AppSeen::Absent));
    assert_eq!(ends(&untold).map(|end| end.0), Some(TaskState::Done));
}

#[test]
fn a_stopped_workspace_ends_what_ran_and_keeps_what_waits() {
    let down = |task: &Task| {
        let app = AppSeen::Unasked;
        plan(&Facts { reach: Reach::Down, app: &app, ..facts(task, &app) })
    };
    assert_eq!(down(&given()), Step::Wait);
    assert_eq!(down(&sending(Channel::Runner, 5)), Step::Wait, "the runner's journal tells later");
    let ended = Some((TaskState::Canceled, "the workspace was stopped", Reached::Stop));
    assert_eq!(ends(&down(&sending(Channel::AgentApi, 5))), ended);
    assert_eq!(ends(&down(&taken(Channel::Runner))), ended);
}

/// What becomes of one message on its way.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Fine,
    /// We are killed after writing it down and before sending.
    KilledBefore,
    /// It never arrives, and nobody tells.
    Lost,
    /// It arrives, its answer does not, or we are killed before writing that down.
    AnswerLost,
    /// The agent says that it is not the time.
    Refused,
    /// It arrives so many looks later.
    Late(u8),
    /// It arrives twice.
    Twice,
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Fine),
        2 => Just(Fate::KilledBefore),
        2 => Just(Fate::Lost),
        2 => Just(Fate::AnswerLost),
        1 => Just(Fate::Refused),
        1 => (1u8..60).prop_map(Fate::Late),
        1 => Just(Fate::Twice),
    ]
}

/// An agent as it is in truth, whatever anybody knows of it.
struct ModelAgent {
    channel: Channel,
    said: Vec<MessageSeen>,
    keys: Vec<String>,
    n_runs: usize,
    busy_for: u8,
    on_their_way: Vec<(u8, String, String)>,
    now: DateTime<Utc>,
}

impl ModelAgent {
    fn hear(&mut self, key: &str, text: &str) {
        let is_repeat = self.channel == Channel::Runner && self.keys.iter().any(|known| known == key);
        if is_repeat {
            return;
        }
        self.keys.push(key.to_owned());
        self.n_runs += 1;
        self.busy_for = 2;
        let id = self.said.len() as i64;
        self.said.push(MessageSeen { id, role: Speaker::User, content: text.to_owned(), time: self.now });
    }

    fn pass(&mut self, seconds: i64) {
        self.now += TimeDelta::seconds(seconds);
        if self.busy_for == 1 {
            let id = self.said.len() as i64;
            self.said.push(MessageSeen {
                id,
                role: Speaker::Agent,
                content: "did it".into(),
                time: self.now,
            });
        }
        self.busy_for = self.busy_for.saturating_sub(1);
        let (arrived, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.on_their_way).into_iter().partition(|(left, _, _)| *left == 0);
        self.on_their_way = later.into_iter().map(|(left, key, text)| (left - 1, key, text)).collect();
        for (_, key, text) in arrived {
            self.hear(&key, &text);
        }
    }

    fn seen(&self) -> AppSeen {
        let is_stable = self.busy_for == 0;
        match self.channel {
            Channel::AgentApi | Channel::Reports => agent_api(is_stable, self.said.clone()),
            Channel::Runner => {
                let state = |last: bool| {
                    let end = TurnState::Ended(TurnEnd::Complete { text: "did it".into() });
                    if last && !is_stable { TurnState::Working } else { end }
                };
                let turn = |(place, key): (usize, &String)| TurnSeen {
                    key: Some(key.clone()),
                    is_prompt: false,
                    accepted_at: self.now,
                    state: state(place + 1 == self.keys.len()),
                };
                runner(is_stable, self.keys.iter().enumerate().map(turn).collect())
            }
        }
    }

    /// Sends as the reconciler does, with this fate; the record is what survives.
    fn send(&mut self, task: &mut Task, fate: Fate) {
        let (key, text) = (task.key(), task.entry.message.clone());
        match fate {
            Fate::KilledBefore | Fate::Lost => {}
            Fate::Refused => task.unsent(),
            Fate::Late(looks) => self.on_their_way.push((looks, key, text)),
            Fate::AnswerLost => self.hear(&key, &text),
            Fate::Fine => {
                self.hear(&key, &text);
                task.answered();
            }
            Fate::Twice => {
                self.hear(&key, &text);
                if self.channel == Channel::Runner {
                    self.hear(&key, &text);
                }
            }
        }
    }
}

/// Runs one task against a model until nothing can happen any more.
fn lived(channel: Channel, fates: &[Fate], silences: &[bool], gaps: &[i64]) -> (Task, usize) {
    let mut task = given();
    let mut agent = ModelAgent {
        channel,
        said: Vec::new(),
        keys: Vec::new(),
        n_runs: 0,
        busy_for: 0,
        on_their_way: Vec::new(),
        now: now(),
    };
    let mut fates = fates.iter().copied();
    for look in 0..200 {
        let is_silent = silences.get(look).copied().unwrap_or(false);
        let app = if is_silent { AppSeen::Silent { reason: "gone".into() } } else { agent.seen() };
        let facts = Facts { now: agent.now, ..facts(&task, &app) };
        let when = (1, agent.now);
        match plan(&facts) {
            Step::Wait => {}
            Step::Send { channel, base } => {
                task.send(channel, base, when);
                agent.send(&mut task, fates.next().unwrap_or(Fate::Fine));
            }
            Step::Take { channel, base } => task.take(channel, base, when),
            Step::End(ending) => task.end(&ending, &app),
            step @ (Step::Park { .. } | Step::Resume | Step::Interrupt | Step::StopWorkspace) => {
                panic!("nobody asked for {step:?}")
            }
        }
        agent.pass(gaps.get(look).copied().unwrap_or(1));
    }
    (task, agent.n_runs)
}

proptest! {
    #[test]
    fn our_runner_does_every_task_exactly_once_whatever_is_lost(
        fates in prop::collection::vec(any_fate(), 0..8),
        silences in prop::collection::vec(any::<bool>(), 0..20),
        gaps in prop::collection::vec(0i64..4000, 0..40),
    ) {
        let (task, n_runs) = lived(Channel::Runner, &fates, &silences, &gaps);
        prop_assert_eq!((task.state(), n_runs), (TaskState::Done, 1));
    }

    #[test]
    fn any_other_agent_does_a_task_at_most_once_and_what_is_done_was_done(
        fates in prop::collection::vec(any_fate(), 0..8),
        silences in prop::collection::vec(any::<bool>(), 0..20),
        gaps in prop::collection::vec(0i64..40, 0..40),
    ) {
        let (task, n_runs) = lived(Channel::AgentApi, &fates, &silences, &gaps);
        prop_assert!(task.state().is_ended(), "{:?}", task);
        prop_assert!(n_runs <= 1, "{} runs", n_runs);
        prop_assert!(task.state() != TaskState::Done || n_runs == 1);
        let is_sure = fates.iter().all(|fate| matches!(fate, Fate::Fine | Fate::Refused));
        prop_assert!(!is_sure || silences.iter().any(|silent| *silent) || task.state() == TaskState::Done);
    }
}
