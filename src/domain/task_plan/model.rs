//! Property: against any agent and any loss, a task runs once and ends.

use chrono::TimeDelta;
use proptest::prelude::*;

use super::tests::{agent_api, facts, given, now, runner};
use super::*;
use crate::domain::app::{MessageSeen, Speaker, TurnEnd, TurnSeen};
use crate::domain::task::{Claim, ClaimKind, TaskState};

/// The fate of one message in transit.
#[derive(Debug, Clone, Copy)]
enum Transmission {
    Fine,
    /// The server is killed between record and send.
    KilledBefore,
    /// It never arrives, without an error.
    Lost,
    /// It arrives; the response is lost, or the server is killed before it records the response.
    AnswerLost,
    /// The agent refuses it.
    Refused,
    /// It arrives after this many observations.
    Late(u8),
    /// It arrives at once, and again after this many observations.
    Twice(u8),
}

fn any_transmission() -> impl Strategy<Value = Transmission> {
    prop_oneof![
        3 => Just(Transmission::Fine),
        2 => Just(Transmission::KilledBefore),
        2 => Just(Transmission::Lost),
        2 => Just(Transmission::AnswerLost),
        1 => Just(Transmission::Refused),
        1 => (1u8..60).prop_map(Transmission::Late),
        1 => (0u8..60).prop_map(Transmission::Twice),
    ]
}

/// The agent's real state, independent of observations.
struct ModelAgent {
    channel: Channel,
    messages: Vec<MessageSeen>,
    keys: Vec<String>,
    n_runs: usize,
    /// Number of sends that may have arrived.
    n_sent: usize,
    busy_for: u8,
    in_flight: Vec<(u8, String, String)>,
    now: DateTime<Utc>,
}

impl ModelAgent {
    fn receive(&mut self, key: &str, text: &str) {
        let is_repeat = self.channel == Channel::Runner && self.keys.iter().any(|known| known == key);
        if is_repeat {
            return;
        }
        self.keys.push(key.to_owned());
        self.n_runs += 1;
        self.busy_for = 2;
        let id = self.messages.len() as i64;
        self.messages.push(MessageSeen { id, role: Speaker::User, content: text.to_owned(), time: self.now });
    }

    fn pass(&mut self, seconds: i64) {
        self.now += TimeDelta::seconds(seconds);
        if self.busy_for == 1 {
            let id = self.messages.len() as i64;
            self.messages.push(MessageSeen {
                id,
                role: Speaker::Agent,
                content: "did it".into(),
                time: self.now,
            });
        }
        self.busy_for = self.busy_for.saturating_sub(1);
        let (arrived, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.in_flight).into_iter().partition(|(left, _, _)| *left == 0);
        self.in_flight = later.into_iter().map(|(left, key, text)| (left - 1, key, text)).collect();
        for (_, key, text) in arrived {
            self.receive(&key, &text);
        }
    }

    fn seen(&self) -> AppSeen {
        let is_stable = self.busy_for == 0;
        match self.channel {
            Channel::AgentApi | Channel::Reports | Channel::Exec => {
                agent_api(is_stable, self.messages.clone())
            }
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

    /// Sends as the reconciler does; only the record survives a kill.
    fn send(&mut self, task: &mut Task, transmission: Transmission) {
        let (key, text) = (task.key(), task.entry.message.clone());
        self.n_sent +=
            usize::from(!matches!(transmission, Transmission::KilledBefore | Transmission::Refused));
        match transmission {
            Transmission::KilledBefore | Transmission::Lost => {}
            Transmission::Refused => task.mark_refused(),
            Transmission::Late(looks) => self.in_flight.push((looks, key, text)),
            Transmission::AnswerLost => self.receive(&key, &text),
            Transmission::Fine => {
                self.receive(&key, &text);
                task.mark_acknowledged();
            }
            Transmission::Twice(looks) => {
                self.receive(&key, &text);
                self.in_flight.push((looks, key, text));
            }
        }
    }
}

/// Simulates one task until no further step is possible.
fn simulate(
    channel: Channel,
    transmissions: &[Transmission],
    silences: &[bool],
    gaps: &[i64],
) -> (Task, ModelAgent) {
    let mut task = given();
    let mut agent = ModelAgent {
        channel,
        messages: Vec::new(),
        keys: Vec::new(),
        n_runs: 0,
        n_sent: 0,
        busy_for: 0,
        in_flight: Vec::new(),
        now: now(),
    };
    let mut transmissions = transmissions.iter().copied();
    for look in 0..200 {
        let is_silent = silences.get(look).copied().unwrap_or(false);
        let app = if is_silent { AppSeen::Silent { reason: "gone".into() } } else { agent.seen() };
        let clock = Clock::at(agent.now);
        let facts = Facts { clock: &clock, ..facts(&task, &app) };
        let when = (1, agent.now);
        match plan(&facts) {
            TaskStep::Wait => {}
            TaskStep::Send { channel, base } => {
                task.send(channel, base, when);
                agent.send(&mut task, transmissions.next().unwrap_or(Transmission::Fine));
            }
            TaskStep::MarkDelivered { channel, base } => task.mark_delivered(channel, base, when),
            TaskStep::End(ending) => task.end(&ending, None, agent.now),
            step @ (TaskStep::Park { .. }
            | TaskStep::Resume { .. }
            | TaskStep::Interrupt
            | TaskStep::Signal
            | TaskStep::StopWorkspace) => {
                panic!("unexpected step {step:?}")
            }
        }
        agent.pass(gaps.get(look).copied().unwrap_or(1));
    }
    (task, agent)
}

/// What ends a turn that continues after the agent's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopBehavior {
    /// It ends by itself after this many seconds.
    EndsAfter(i64),
    EndsAtInterrupt,
    EndsAtSignal,
    NeverEnds,
}

fn any_behavior() -> impl Strategy<Value = StopBehavior> {
    prop_oneof![
        (0i64..30).prop_map(StopBehavior::EndsAfter),
        Just(StopBehavior::EndsAtInterrupt),
        Just(StopBehavior::EndsAtSignal),
        Just(StopBehavior::NeverEnds),
    ]
}

/// Simulates a claim during a turn; returns the last step, and whether the turn was over by then.
fn simulate_claimed(claim: Claim, behavior: StopBehavior, gaps: &[i64]) -> (TaskStep, bool) {
    let mut task = given();
    task.mark_delivered(Channel::Runner, None, (1, claim.at));
    let (mut now, begun) = (claim.at, claim.at);
    task.work.claim = Some(claim);
    let (mut state, mut interrupting_since, mut signaling) = (TurnState::Working, None, None);
    for look in 0..400 {
        if matches!(behavior, StopBehavior::EndsAfter(after) if state == TurnState::Working && now - begun >= TimeDelta::seconds(after))
        {
            state = TurnState::Ended(TurnEnd::Complete { text: "did it".into() });
        }
        let turn =
            TurnSeen { key: Some(task.key()), is_prompt: false, accepted_at: begun, state: state.clone() };
        let app = runner(state != TurnState::Working, vec![turn]);
        let clock = Clock::at(now);
        match plan(&Facts { clock: &clock, interrupting_since, signaling, ..facts(&task, &app) }) {
            TaskStep::Wait => {}
            TaskStep::Interrupt => {
                interrupting_since = interrupting_since.or(Some(now));
                if behavior == StopBehavior::EndsAtInterrupt {
                    state = TurnState::Ended(TurnEnd::Interrupted);
                }
            }
            TaskStep::Signal => {
                let since = signaling.map_or(now, |signaling: Signaling| signaling.since);
                let are_gone = behavior == StopBehavior::EndsAtSignal;
                signaling = Some(Signaling { since, are_gone });
                if are_gone {
                    task.work.reached = Escalation::Signals;
                    state = TurnState::Ended(TurnEnd::Failed { text: "by a signal".into() });
                }
            }
            step @ (TaskStep::End(_) | TaskStep::Park { .. }) => return (step, state != TurnState::Working),
            step @ (TaskStep::Send { .. }
            | TaskStep::MarkDelivered { .. }
            | TaskStep::Resume { .. }
            | TaskStep::StopWorkspace) => {
                panic!("unexpected step {step:?}")
            }
        }
        now += TimeDelta::seconds(gaps.get(look).copied().unwrap_or(1));
    }
    panic!("it never ends")
}

proptest! {
    #[test]
    fn our_runner_does_every_task_exactly_once_whatever_is_lost(
        transmissions in prop::collection::vec(any_transmission(), 0..8),
        silences in prop::collection::vec(any::<bool>(), 0..20),
        gaps in prop::collection::vec(0i64..4000, 0..40),
    ) {
        let (task, agent) = simulate(Channel::Runner, &transmissions, &silences, &gaps);
        prop_assert_eq!((task.state(), agent.n_runs), (TaskState::Done, 1));
    }

    #[test]
    fn any_other_agent_does_a_task_at_most_once_and_what_is_done_was_done(
        transmissions in prop::collection::vec(any_transmission(), 0..8),
        silences in prop::collection::vec(any::<bool>(), 0..20),
        gaps in prop::collection::vec(prop_oneof![0i64..40, 0i64..4000], 0..40),
    ) {
        let (task, agent) = simulate(Channel::AgentApi, &transmissions, &silences, &gaps);
        prop_assert!(task.state().is_ended(), "{:?}", task);
        prop_assert!(agent.n_sent <= 1, "told {} times", agent.n_sent);
        let was_doubled = transmissions.iter().any(|transmission| matches!(transmission, Transmission::Twice(_)));
        prop_assert!(agent.n_runs <= if was_doubled { 2 } else { 1 }, "{} runs", agent.n_runs);
        prop_assert!(task.state() != TaskState::Done || agent.n_runs >= 1);
        let is_sure = transmissions.iter().all(|transmission| matches!(transmission, Transmission::Fine | Transmission::Refused));
        prop_assert!(!is_sure || silences.iter().any(|silent| *silent) || task.state() == TaskState::Done);
    }

    #[test]
    fn a_claim_is_the_result_once_the_turn_is_over_or_cannot_be_ended(
        kind in proptest::sample::select(ClaimKind::ALL),
        has_limit: bool,
        behavior in any_behavior(),
        gaps in prop::collection::vec(0i64..40, 0..40),
    ) {
        let text = if has_limit { "usage limit reached, try again in 2 hours" } else { "so it went" };
        let claim = Claim { kind, text: text.into(), at: now() };
        let (step, is_over) = simulate_claimed(claim, behavior, &gaps);
        prop_assert!(is_over || behavior == StopBehavior::NeverEnds);
        let outcome = match &step {
            TaskStep::Park { reason, .. } => {
                prop_assert!(is_over && has_limit && kind == ClaimKind::Failure);
                Some(reason.as_str())
            }
            TaskStep::End(ending) => ending.outcome.as_deref(),
            _ => None,
        };
        prop_assert_eq!(outcome, Some(text));
    }
}
