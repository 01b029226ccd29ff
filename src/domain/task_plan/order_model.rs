//! The property that tasks of one agent run in the order accepted, and that an interrupt runs after all before it.

use chrono::TimeDelta;
use proptest::prelude::*;
use uuid::Uuid;

use super::tests::{facts, now, runner};
use super::*;
use crate::domain::app::{PROMPT_KEY, TurnEnd, TurnSeen};
use crate::domain::history::HistoryLine;
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{Cancel, CancelCause, TaskOrigin, TaskSource, TaskState, TaskWork, WhenBusy};
use crate::domain::task_order::{Admission, admit, place};

/// What happens beside the worker's looks.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// Nothing but time.
    Pass,
    Start,
    Interrupt,
    /// The same right after the worker has read the record and before it writes.
    InterruptInBetween,
    /// The worker is killed and begins anew.
    Kill,
    /// Nothing is seen of the agent.
    Silence,
    /// The workspace comes up; until then it starts.
    Ready,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Pass),
        2 => Just(Event::Start),
        2 => Just(Event::Interrupt),
        2 => Just(Event::InterruptInBetween),
        1 => Just(Event::Kill),
        1 => Just(Event::Silence),
        2 => Just(Event::Ready),
    ]
}

/// What becomes of a message or an interruption on its way to the runner.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Fine,
    Lost,
    Refused,
    Late(u8),
    Twice(u8),
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Fine),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Refused),
        1 => (1u8..9).prop_map(Fate::Late),
        1 => (0u8..9).prop_map(Fate::Twice),
    ]
}

#[derive(Debug, Clone)]
enum Word {
    Tell(String),
    Cancel(String),
}

/// Our runner as it is, with what its journal keeps.
#[derive(Debug, Default)]
struct Runner {
    turns: Vec<TurnSeen>,
    withdrawn: Vec<String>,
    left: u8,
    /// The turns that really began, in order.
    begun: Vec<String>,
    on_their_way: Vec<(u8, Word)>,
}

impl Runner {
    fn hear(&mut self, word: Word) {
        match word {
            Word::Tell(key) => {
                let is_known = self.turns.iter().any(|turn| turn.key.as_ref() == Some(&key));
                if !is_known && !self.withdrawn.contains(&key) {
                    let (key, state) = (Some(key), TurnState::Queued);
                    self.turns.push(TurnSeen { key, is_prompt: false, accepted_at: now(), state });
                }
            }
            Word::Cancel(key) => match self.turns.iter_mut().find(|turn| turn.name() == Some(&key)) {
                Some(turn) if turn.state == TurnState::Queued && turn.is_prompt => {}
                Some(turn) if !turn.is_ended() => turn.state = TurnState::Ended(TurnEnd::Interrupted),
                Some(_) => {}
                None if key == PROMPT_KEY => {}
                None => self.withdrawn.push(key),
            },
        }
    }

    fn receive(&mut self, word: Word, fate: Fate) {
        match fate {
            Fate::Lost | Fate::Refused => {}
            Fate::Fine => self.hear(word),
            Fate::Late(looks) => self.on_their_way.push((looks, word)),
            Fate::Twice(looks) => {
                self.hear(word.clone());
                self.on_their_way.push((looks, word));
            }
        }
    }

    fn pass(&mut self) {
        let (arrived, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.on_their_way).into_iter().partition(|(left, _)| *left == 0);
        self.on_their_way = later.into_iter().map(|(left, word)| (left - 1, word)).collect();
        arrived.into_iter().for_each(|(_, word)| self.hear(word));
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.state == TurnState::Working) {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                turn.state = TurnState::Ended(TurnEnd::Complete { text: "did it".into() });
            }
        } else if let Some(turn) = self.turns.iter_mut().find(|turn| turn.state == TurnState::Queued) {
            turn.state = TurnState::Working;
            self.left = 4;
            self.begun.extend(turn.name().map(str::to_owned));
        }
    }

    fn seen(&self) -> AppSeen {
        let withdrawn = self.withdrawn.iter().map(|key| TurnSeen {
            key: Some(key.clone()),
            is_prompt: false,
            accepted_at: now(),
            state: TurnState::Ended(TurnEnd::Interrupted),
        });
        let is_stable = self.turns.iter().all(TurnSeen::is_ended);
        runner(is_stable, self.turns.iter().cloned().chain(withdrawn).collect())
    }
}

/// The whole: the record, the worker's memory and the runner.
struct World {
    tasks: Vec<Task>,
    runner: Runner,
    is_ready: bool,
    interrupting: Option<(TaskId, DateTime<Utc>)>,
    now: DateTime<Utc>,
    fates: Vec<Fate>,
    /// Of each interrupt that was accepted: the tasks that were open then.
    interrupts: Vec<(TaskId, Vec<TaskId>)>,
    /// Which of our tasks had not ended when a turn began.
    open_at_begin: Vec<(String, Vec<TaskId>)>,
}

impl World {
    fn new(fates: &[Fate]) -> Self {
        let mut world = Self {
            tasks: Vec::new(),
            runner: Runner::default(),
            is_ready: false,
            interrupting: None,
            now: now(),
            fates: fates.to_vec(),
            interrupts: Vec::new(),
            open_at_begin: Vec::new(),
        };
        world.accept(TaskOrigin::Spec, WhenBusy::Queue);
        world
    }

    fn open(&self) -> Vec<Task> {
        let mut open: Vec<Task> =
            self.tasks.iter().filter(|task| !task.state().is_ended()).cloned().collect();
        open.sort_by_key(place);
        open
    }

    /// As the store does it, in one transaction; the wall clock of callers may be behind.
    fn accept(&mut self, origin: TaskOrigin, when_busy: WhenBusy) {
        let id = TaskId(Uuid::from_u128(100 - self.tasks.len() as u128));
        let open = self.open();
        let admission = Admission { when_busy, is_starting: !self.is_ready };
        let admitted = admit(now(), admission, &open).unwrap();
        let cancel = Cancel { at: self.now, cause: CancelCause::Interrupt(id), may_stop: false };
        for task in &mut self.tasks {
            if admitted.ended.contains(&task.id) {
                let outcome = why(cancel.cause, "", "it had not been delivered yet");
                task.end(&ending(EndState::Canceled, Some(&outcome)), None, self.now);
            } else if admitted.interrupted.contains(&task.id) {
                task.work.cancel.get_or_insert(cancel);
            }
        }
        let entry = HistoryLine {
            agent_id: AgentId(Uuid::nil()),
            message: id.to_string(),
            source: TaskSource::Human,
            generation: 1,
            created_at: admitted.accepted_at,
        };
        let is_urgent = when_busy == WhenBusy::Interrupt;
        self.tasks.push(Task::accepted(id, entry, TaskWork { is_urgent, ..TaskWork::fresh(origin) }));
        if is_urgent {
            self.interrupts.push((id, open.iter().map(|task| task.id).collect()));
        }
    }

    /// As `task_save`: an ended record stays, and a cancel is never overwritten.
    fn save(&mut self, task: Task) -> bool {
        let Some(known) = self.tasks.iter_mut().find(|known| known.id == task.id) else { return false };
        let (from, to) = (known.state(), task.state());
        let is_legal = !from.is_ended() && (from == to || from.may_become(to));
        if is_legal {
            let cancel = known.work.cancel;
            *known = task;
            known.work.cancel = cancel;
        }
        is_legal
    }

    fn fate(&mut self) -> Fate {
        self.fates.pop().unwrap_or(Fate::Fine)
    }

    fn look(&mut self, event: Event) {
        let app = match event {
            Event::Silence => AppSeen::Silent { reason: "gone".into() },
            _ if self.is_ready => self.runner.seen(),
            _ => AppSeen::Unasked,
        };
        let Some(mut task) = self.open().into_iter().next() else { return };
        let clock = Clock::at(self.now);
        let interrupting_since = self.interrupting.filter(|(id, _)| *id == task.id).map(|(_, since)| since);
        let reach = if self.is_ready { Reach::Ready } else { Reach::Away };
        let step = plan(&Facts { reach, clock: &clock, interrupting_since, ..facts(&task, &app) });
        if matches!(event, Event::InterruptInBetween) {
            self.accept(TaskOrigin::Given, WhenBusy::Interrupt);
        }
        let when = (1, self.now);
        match step {
            Step::Wait | Step::Signal => {}
            Step::Send { channel, base } => {
                let (key, is_first) = (task.key(), task.delivery() == Delivery::Unsent);
                task.send(channel, base, when);
                if self.save(task.clone()) {
                    let fate = self.fate();
                    self.runner.receive(Word::Tell(key), fate);
                    if is_first && matches!(fate, Fate::Refused) {
                        task.unsent();
                        self.save(task);
                    }
                }
            }
            Step::Take { channel, base } => {
                task.take(channel, base, when);
                self.save(task);
            }
            Step::End(ending) => {
                task.end(&ending, None, self.now);
                self.save(task);
            }
            Step::Interrupt => {
                self.interrupting =
                    self.interrupting.filter(|(id, _)| *id == task.id).or(Some((task.id, self.now)));
                let fate = self.fate();
                if let Some(key) = interrupt_key(&task, &app) {
                    self.runner.receive(Word::Cancel(key), fate);
                }
            }
            Step::Park { .. } | Step::Resume { .. } | Step::StopWorkspace => panic!("never: {step:?}"),
        }
    }

    fn live(&mut self, events: &[Event]) {
        let quiet = std::iter::repeat_n(Event::Pass, 400);
        for event in events.iter().copied().chain([Event::Ready]).chain(quiet) {
            match event {
                Event::Pass | Event::Silence | Event::InterruptInBetween => {}
                Event::Start => self.accept(TaskOrigin::Given, WhenBusy::Queue),
                Event::Interrupt => self.accept(TaskOrigin::Given, WhenBusy::Interrupt),
                Event::Kill => self.interrupting = None,
                Event::Ready if !self.is_ready => {
                    self.is_ready = true;
                    let state = TurnState::Queued;
                    self.runner.turns.push(TurnSeen {
                        key: None,
                        is_prompt: true,
                        accepted_at: now(),
                        state,
                    });
                }
                Event::Ready => {}
            }
            self.look(event);
            let n_begun = self.runner.begun.len();
            if self.is_ready {
                self.runner.pass();
            }
            for key in self.runner.begun.iter().skip(n_begun) {
                let open = self.open().into_iter().map(|task| task.id).collect();
                self.open_at_begin.push((key.clone(), open));
            }
            self.now += TimeDelta::milliseconds(200);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_interrupt_runs_once_after_all_that_was_accepted_before_it_has_ended(
        events in prop::collection::vec(any_event(), 0..40),
        fates in prop::collection::vec(any_fate(), 0..20),
    ) {
        let mut world = World::new(&fates);
        world.live(&events);
        let name = |task: &Task| {
            if task.work.origin == TaskOrigin::Spec { PROMPT_KEY.to_owned() } else { task.key() }
        };
        let begun = |task: &Task| world.runner.begun.iter().filter(|key| **key == name(task)).count();
        for task in &world.tasks {
            prop_assert!(task.state().is_ended(), "{task:?}");
            let is_done = task.state() == TaskState::Done;
            prop_assert!(begun(task) <= 1 && (!is_done || begun(task) == 1), "{task:?}");
        }
        let spec = &world.tasks[0];
        prop_assert_eq!(begun(spec), 1, "a spec is never dropped");
        let order: Vec<usize> = world.runner.begun.iter()
            .map(|key| world.tasks.iter().position(|task| name(task) == *key).unwrap()).collect();
        prop_assert!(order.is_sorted(), "tasks run in the order accepted: {order:?}");
        for (id, before) in &world.interrupts {
            let task = world.tasks.iter().find(|task| task.id == *id).unwrap();
            let is_replaced = world.interrupts.iter().any(|(_, others)| others.contains(id));
            prop_assert!(is_replaced || task.state() == TaskState::Done, "{task:?}");
            for earlier in world.tasks.iter().filter(|task| before.contains(&task.id)) {
                let outcome = earlier.outcome().unwrap_or_default();
                let names_interrupt = world.interrupts.iter().any(|(by, _)| outcome.contains(&by.to_string()));
                let is_canceled = earlier.state() == TaskState::Canceled && names_interrupt;
                prop_assert!(is_canceled || earlier.state() == TaskState::Done, "{earlier:?}");
            }
            for (key, open) in world.open_at_begin.iter().filter(|(key, _)| *key == task.key()) {
                prop_assert!(!before.iter().any(|earlier| open.contains(earlier)), "{key} began too early");
            }
        }
    }
}
