//! Property: tasks of an agent run in the order accepted, and an interrupt runs after all earlier tasks.

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

/// An event between two steps of the worker.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// Only time passes.
    Pass,
    Start,
    Interrupt,
    /// An interrupt between the worker's read and its write.
    InterruptInBetween,
    /// The worker is killed and restarts.
    Kill,
    /// The agent's app does not respond.
    Silence,
    /// The workspace becomes ready.
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

/// The fate of a message or an interrupt in transit.
#[derive(Debug, Clone, Copy)]
enum Arrival {
    Fine,
    Lost,
    Refused,
    Late(u8),
    Twice(u8),
}

fn any_arrival() -> impl Strategy<Value = Arrival> {
    prop_oneof![
        3 => Just(Arrival::Fine),
        1 => Just(Arrival::Lost),
        1 => Just(Arrival::Refused),
        1 => (1u8..9).prop_map(Arrival::Late),
        1 => (0u8..9).prop_map(Arrival::Twice),
    ]
}

#[derive(Debug, Clone)]
enum RunnerMessage {
    Deliver(String),
    Cancel(String),
}

/// The runner's real state, including its journal.
#[derive(Debug, Default)]
struct Runner {
    turns: Vec<TurnSeen>,
    withdrawn: Vec<String>,
    left: u8,
    /// Turns that began, in order.
    begun: Vec<String>,
    in_flight: Vec<(u8, RunnerMessage)>,
}

impl Runner {
    fn handle(&mut self, message: RunnerMessage) {
        match message {
            RunnerMessage::Deliver(key) => {
                let is_known = self.turns.iter().any(|turn| turn.key.as_ref() == Some(&key));
                if !is_known && !self.withdrawn.contains(&key) {
                    let (key, state) = (Some(key), TurnState::Queued);
                    self.turns.push(TurnSeen { key, is_prompt: false, accepted_at: now(), state });
                }
            }
            RunnerMessage::Cancel(key) => {
                match self.turns.iter_mut().find(|turn| turn.name() == Some(&key)) {
                    Some(turn) if turn.state == TurnState::Queued && turn.is_prompt => {}
                    Some(turn) if !turn.is_ended() => turn.state = TurnState::Ended(TurnEnd::Interrupted),
                    Some(_) => {}
                    None if key == PROMPT_KEY => {}
                    None => self.withdrawn.push(key),
                }
            }
        }
    }

    fn receive(&mut self, message: RunnerMessage, arrival: Arrival) {
        match arrival {
            Arrival::Lost | Arrival::Refused => {}
            Arrival::Fine => self.handle(message),
            Arrival::Late(looks) => self.in_flight.push((looks, message)),
            Arrival::Twice(looks) => {
                self.handle(message.clone());
                self.in_flight.push((looks, message));
            }
        }
    }

    fn pass(&mut self) {
        let (arrived, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.in_flight).into_iter().partition(|(left, _)| *left == 0);
        self.in_flight = later.into_iter().map(|(left, message)| (left - 1, message)).collect();
        arrived.into_iter().for_each(|(_, message)| self.handle(message));
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

/// The record, the worker's memory and the runner.
struct Simulation {
    tasks: Vec<Task>,
    runner: Runner,
    is_ready: bool,
    interrupting: Option<(TaskId, DateTime<Utc>)>,
    now: DateTime<Utc>,
    arrivals: Vec<Arrival>,
    /// Each accepted interrupt with the tasks open at that time.
    interrupts: Vec<(TaskId, Vec<TaskId>)>,
    /// Each begun turn with the tasks open at that time.
    open_at_begin: Vec<(String, Vec<TaskId>)>,
}

impl Simulation {
    fn new(arrivals: &[Arrival]) -> Self {
        let mut world = Self {
            tasks: Vec::new(),
            runner: Runner::default(),
            is_ready: false,
            interrupting: None,
            now: now(),
            arrivals: arrivals.to_vec(),
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

    /// As in the store: one transaction; the wall clock of callers may be behind.
    fn accept(&mut self, origin: TaskOrigin, when_busy: WhenBusy) {
        let id = TaskId(Uuid::from_u128(100 - self.tasks.len() as u128));
        let open = self.open();
        let admission = Admission { when_busy, is_starting: !self.is_ready };
        let admitted = admit(now(), admission, &open).unwrap();
        let cancel = Cancel { at: self.now, cause: CancelCause::Interrupt(id), may_stop: false };
        for task in &mut self.tasks {
            if admitted.ended.contains(&task.id) {
                let outcome = cancel_reason(cancel.cause, "", "it had not been delivered yet");
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

    /// As `task_save`: final states stay, and a cancel is never overwritten.
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

    fn arrival(&mut self) -> Arrival {
        self.arrivals.pop().unwrap_or(Arrival::Fine)
    }

    fn step_worker(&mut self, event: Event) {
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
            TaskStep::Wait | TaskStep::Signal => {}
            TaskStep::Send { channel, base } => {
                let (key, is_first) = (task.key(), task.delivery() == Delivery::Unsent);
                task.send(channel, base, when);
                if self.save(task.clone()) {
                    let arrival = self.arrival();
                    self.runner.receive(RunnerMessage::Deliver(key), arrival);
                    if is_first && matches!(arrival, Arrival::Refused) {
                        task.mark_refused();
                        self.save(task);
                    }
                }
            }
            TaskStep::MarkDelivered { channel, base } => {
                task.mark_delivered(channel, base, when);
                self.save(task);
            }
            TaskStep::End(ending) => {
                task.end(&ending, None, self.now);
                self.save(task);
            }
            TaskStep::Interrupt => {
                self.interrupting =
                    self.interrupting.filter(|(id, _)| *id == task.id).or(Some((task.id, self.now)));
                let arrival = self.arrival();
                if let Some(key) = interrupt_key(&task, &app) {
                    self.runner.receive(RunnerMessage::Cancel(key), arrival);
                }
            }
            TaskStep::Park { .. } | TaskStep::Resume { .. } | TaskStep::StopWorkspace => {
                panic!("never: {step:?}")
            }
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
            self.step_worker(event);
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
        arrivals in prop::collection::vec(any_arrival(), 0..20),
    ) {
        let mut world = Simulation::new(&arrivals);
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
