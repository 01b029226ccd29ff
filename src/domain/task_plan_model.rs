//! The property of the planner that against any agent and any loss a task is done once and ends.

use proptest::prelude::*;

use super::tests::{agent_api, facts, given, now, runner};
use super::*;

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
            Step::End(ending) => task.end(&ending, None),
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
