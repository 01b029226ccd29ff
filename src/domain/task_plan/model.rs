//! The property of the planner that against any agent and any loss a task is done once and ends.

use chrono::TimeDelta;
use proptest::prelude::*;

use super::tests::{agent_api, facts, given, now, runner};
use super::*;
use crate::domain::app::{MessageSeen, Speaker, TurnEnd, TurnSeen};
use crate::domain::task::{Claim, ClaimKind, TaskState};

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
    /// It arrives, and so many looks later once more.
    Twice(u8),
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Fine),
        2 => Just(Fate::KilledBefore),
        2 => Just(Fate::Lost),
        2 => Just(Fate::AnswerLost),
        1 => Just(Fate::Refused),
        1 => (1u8..60).prop_map(Fate::Late),
        1 => (0u8..60).prop_map(Fate::Twice),
    ]
}

/// An agent as it is in truth, whatever anybody knows of it.
struct ModelAgent {
    channel: Channel,
    said: Vec<MessageSeen>,
    keys: Vec<String>,
    n_runs: usize,
    /// How often it was sent something that may have arrived.
    n_told: usize,
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
            Channel::AgentApi | Channel::Reports | Channel::Exec => agent_api(is_stable, self.said.clone()),
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
        self.n_told += usize::from(!matches!(fate, Fate::KilledBefore | Fate::Refused));
        match fate {
            Fate::KilledBefore | Fate::Lost => {}
            Fate::Refused => task.unsent(),
            Fate::Late(looks) => self.on_their_way.push((looks, key, text)),
            Fate::AnswerLost => self.hear(&key, &text),
            Fate::Fine => {
                self.hear(&key, &text);
                task.answered();
            }
            Fate::Twice(looks) => {
                self.hear(&key, &text);
                self.on_their_way.push((looks, key, text));
            }
        }
    }
}

/// Runs one task against a model until nothing can happen any more.
fn lived(channel: Channel, fates: &[Fate], silences: &[bool], gaps: &[i64]) -> (Task, ModelAgent) {
    let mut task = given();
    let mut agent = ModelAgent {
        channel,
        said: Vec::new(),
        keys: Vec::new(),
        n_runs: 0,
        n_told: 0,
        busy_for: 0,
        on_their_way: Vec::new(),
        now: now(),
    };
    let mut fates = fates.iter().copied();
    for look in 0..200 {
        let is_silent = silences.get(look).copied().unwrap_or(false);
        let app = if is_silent { AppSeen::Silent { reason: "gone".into() } } else { agent.seen() };
        let clock = Clock::at(agent.now);
        let facts = Facts { clock: &clock, ..facts(&task, &app) };
        let when = (1, agent.now);
        match plan(&facts) {
            Step::Wait => {}
            Step::Send { channel, base } => {
                task.send(channel, base, when);
                agent.send(&mut task, fates.next().unwrap_or(Fate::Fine));
            }
            Step::Take { channel, base } => task.take(channel, base, when),
            Step::End(ending) => task.end(&ending, None, agent.now),
            step @ (Step::Park { .. }
            | Step::Resume { .. }
            | Step::Interrupt
            | Step::Signal
            | Step::StopWorkspace) => {
                panic!("nobody asked for {step:?}")
            }
        }
        agent.pass(gaps.get(look).copied().unwrap_or(1));
    }
    (task, agent)
}

/// What ends a turn that goes on after the agent's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Temper {
    /// It ends by itself after so many seconds.
    Ends(i64),
    HeedsInterrupts,
    HeedsSignals,
    HeedsNothing,
}

fn any_temper() -> impl Strategy<Value = Temper> {
    prop_oneof![
        (0i64..30).prop_map(Temper::Ends),
        Just(Temper::HeedsInterrupts),
        Just(Temper::HeedsSignals),
        Just(Temper::HeedsNothing),
    ]
}

/// A task that is claimed while its turn runs: its last step, and whether the turn was over by then.
fn outlived(claim: Claim, temper: Temper, gaps: &[i64]) -> (Step, bool) {
    let mut task = given();
    task.take(Channel::Runner, None, (1, claim.at));
    let (mut now, begun) = (claim.at, claim.at);
    task.work.claim = Some(claim);
    let (mut state, mut interrupting_since, mut signaling) = (TurnState::Working, None, None);
    for look in 0..400 {
        if matches!(temper, Temper::Ends(after) if state == TurnState::Working && now - begun >= TimeDelta::seconds(after))
        {
            state = TurnState::Ended(TurnEnd::Complete { text: "did it".into() });
        }
        let turn =
            TurnSeen { key: Some(task.key()), is_prompt: false, accepted_at: begun, state: state.clone() };
        let app = runner(state != TurnState::Working, vec![turn]);
        let clock = Clock::at(now);
        match plan(&Facts { clock: &clock, interrupting_since, signaling, ..facts(&task, &app) }) {
            Step::Wait => {}
            Step::Interrupt => {
                interrupting_since = interrupting_since.or(Some(now));
                if temper == Temper::HeedsInterrupts {
                    state = TurnState::Ended(TurnEnd::Interrupted);
                }
            }
            Step::Signal => {
                let since = signaling.map_or(now, |signaling: Signaling| signaling.since);
                let are_gone = temper == Temper::HeedsSignals;
                signaling = Some(Signaling { since, are_gone });
                if are_gone {
                    task.work.reached = Reached::Signals;
                    state = TurnState::Ended(TurnEnd::Failed { text: "by a signal".into() });
                }
            }
            step @ (Step::End(_) | Step::Park { .. }) => return (step, state != TurnState::Working),
            step @ (Step::Send { .. } | Step::Take { .. } | Step::Resume { .. } | Step::StopWorkspace) => {
                panic!("nobody asked for {step:?}")
            }
        }
        now += TimeDelta::seconds(gaps.get(look).copied().unwrap_or(1));
    }
    panic!("it never ends")
}

proptest! {
    #[test]
    fn our_runner_does_every_task_exactly_once_whatever_is_lost(
        fates in prop::collection::vec(any_fate(), 0..8),
        silences in prop::collection::vec(any::<bool>(), 0..20),
        gaps in prop::collection::vec(0i64..4000, 0..40),
    ) {
        let (task, agent) = lived(Channel::Runner, &fates, &silences, &gaps);
        prop_assert_eq!((task.state(), agent.n_runs), (TaskState::Done, 1));
    }

    #[test]
    fn any_other_agent_does_a_task_at_most_once_and_what_is_done_was_done(
        fates in prop::collection::vec(any_fate(), 0..8),
        silences in prop::collection::vec(any::<bool>(), 0..20),
        gaps in prop::collection::vec(prop_oneof![0i64..40, 0i64..4000], 0..40),
    ) {
        let (task, agent) = lived(Channel::AgentApi, &fates, &silences, &gaps);
        prop_assert!(task.state().is_ended(), "{:?}", task);
        prop_assert!(agent.n_told <= 1, "told {} times", agent.n_told);
        let was_doubled = fates.iter().any(|fate| matches!(fate, Fate::Twice(_)));
        prop_assert!(agent.n_runs <= if was_doubled { 2 } else { 1 }, "{} runs", agent.n_runs);
        prop_assert!(task.state() != TaskState::Done || agent.n_runs >= 1);
        let is_sure = fates.iter().all(|fate| matches!(fate, Fate::Fine | Fate::Refused));
        prop_assert!(!is_sure || silences.iter().any(|silent| *silent) || task.state() == TaskState::Done);
    }

    #[test]
    fn a_claim_ends_a_task_in_its_words_once_the_turn_is_over_or_nothing_ends_it(
        kind in proptest::sample::select(ClaimKind::ALL),
        has_limit: bool,
        temper in any_temper(),
        gaps in prop::collection::vec(0i64..40, 0..40),
    ) {
        let text = if has_limit { "usage limit reached, try again in 2 hours" } else { "so it went" };
        let claim = Claim { kind, text: text.into(), at: now() };
        let (step, is_over) = outlived(claim, temper, &gaps);
        prop_assert!(is_over || temper == Temper::HeedsNothing);
        let said = match &step {
            Step::Park { reason, .. } => {
                prop_assert!(is_over && has_limit && kind == ClaimKind::Failure);
                Some(reason.as_str())
            }
            Step::End(ending) => ending.outcome.as_deref(),
            _ => None,
        };
        prop_assert_eq!(said, Some(text));
    }
}
