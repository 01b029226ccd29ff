//! A task that interrupts: it ends all that was accepted before it, runs once, and the answer counts right.

use fleet_mcp::app::tasks::TaskStarted;
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::task::{TaskState, WhenBusy};

use crate::harness::{Crew, moments};

const ON_ITS_WAY: &str = "the task is being delivered to agent 'one'";

impl Crew {
    async fn interrupt(&self, name: &str, task: &str) -> TaskStarted {
        self.start(name, task, WhenBusy::Interrupt).await.unwrap()
    }

    /// How these tasks ended, and with which words.
    async fn ends(&self, tasks: &[TaskId]) -> Vec<(TaskState, String)> {
        let mut ends = Vec::new();
        for task in tasks {
            let ended = self.ended(*task).await;
            ends.push((ended.state(), ended.outcome().unwrap_or_default().to_owned()));
        }
        ends
    }
}

fn interrupted(by: TaskId) -> (TaskState, String) {
    (TaskState::Canceled, format!("interrupted by task {by}"))
}

fn dropped(by: TaskId) -> (TaskState, String) {
    (TaskState::Canceled, format!("interrupted by task {by}; it had not been delivered yet"))
}

fn done(text: &str) -> (TaskState, String) {
    (TaskState::Done, text.to_owned())
}

#[tokio::test]
async fn an_interrupt_ends_what_runs_and_what_waits_and_then_runs() {
    let crew = Crew::with("one").await;
    let first = crew.give("one", "sleep 600").await;
    crew.works("one").await;
    let waiting = crew.start("one", "say waiting", WhenBusy::Queue).await.unwrap().task.id;
    let urgent = crew.interrupt("one", "say urgent").await;
    assert_eq!(urgent.message, format!("{ON_ITS_WAY}; it interrupts 2 tasks"));
    let by = urgent.task.id;
    assert_eq!(crew.ends(&[first, waiting, by]).await, [interrupted(by), dropped(by), done("urgent")]);
    assert_eq!(crew.taken("one"), ["say ready", "sleep 600", "say urgent"]);
}

/// Whichever step the first one is at, it ends before the second one runs.
#[tokio::test]
async fn an_interrupt_right_behind_a_start_replaces_it_every_time() {
    let crew = Crew::with("one").await;
    for round in moments(&(0..20u64).collect::<Vec<_>>()) {
        let replaced = crew.give("one", "sleep 600").await;
        tokio::time::sleep(std::time::Duration::from_millis(round * 4)).await;
        let urgent = crew.interrupt("one", &format!("say {round}")).await;
        assert_eq!(urgent.message, format!("{ON_ITS_WAY}; it interrupts 1 task"));
        let by = urgent.task.id;
        let ends = crew.ends(&[replaced, by]).await;
        assert!([interrupted(by), dropped(by)].contains(&ends[0]), "{round}: {ends:?}");
        assert_eq!(ends[1], done(&round.to_string()));
        crew.rests("one").await;
        assert_eq!(crew.taken("one").last(), Some(&format!("say {round}")), "nothing runs behind it");
    }
}

#[tokio::test]
async fn of_interrupts_at_once_the_last_accepted_runs_and_replaces_the_others() {
    let crew = Crew::with("one").await;
    for _ in 0..5 {
        let busy = crew.give("one", "sleep 600").await;
        let (a, b, c) = tokio::join!(
            crew.interrupt("one", "sleep 600\nsay a"),
            crew.interrupt("one", "sleep 600\nsay b"),
            crew.interrupt("one", "sleep 600\nsay c"),
        );
        let mut racing = [a.task, b.task, c.task];
        racing.sort_by_key(|task| task.entry.created_at);
        let last = crew.interrupt("one", "say last").await.task.id;
        let mut expected = vec![racing[0].id, racing[1].id, racing[2].id, last].into_iter();
        let tasks = [busy, racing[0].id, racing[1].id, racing[2].id];
        for (task, end) in tasks.iter().zip(crew.ends(&tasks).await) {
            let by = expected.next().unwrap();
            assert!([interrupted(by), dropped(by)].contains(&end), "{task}: {end:?}");
        }
        assert_eq!(crew.ends(&[last]).await, [done("last")]);
        crew.rests("one").await;
    }
}

#[tokio::test]
async fn an_interrupt_during_a_start_lets_the_agent_have_its_spec_first() {
    let crew = Crew::new().await;
    let mut n_held = 0;
    for number in 0..6 {
        let name = format!("agent-{number}");
        crew.create(&name, "sleep 600").await;
        let held = crew.start(&name, "say held", WhenBusy::Queue).await.unwrap().task.id;
        let urgent = crew.interrupt(&name, "say urgent").await;
        // An agent may be ready before the third call.
        n_held += u32::from(urgent.message.starts_with("the task is held until agent"));
        assert!(urgent.message.ends_with("; it interrupts 2 tasks"), "{}", urgent.message);
        let by = urgent.task.id;
        assert_eq!(crew.ends(&[held, by]).await, [dropped(by), done("urgent")]);
        crew.rests(&name).await;
        assert_eq!(crew.taken(&name), ["sleep 600", "say urgent"]);
        let tasks = crew.tasks(&name).await;
        let (state, text, outcome) = &tasks[0];
        assert_eq!((state.as_str(), text.as_str()), ("canceled", "sleep 600"));
        assert_eq!(outcome.as_deref(), Some(interrupted(by).1.as_str()));
    }
    assert!(n_held > 0, "no interrupt came during a start");
}

#[tokio::test]
async fn a_task_behind_an_interrupt_waits_for_it() {
    let crew = Crew::with("one").await;
    crew.give("one", "sleep 600").await;
    crew.interrupt("one", "sleep 1\nsay urgent").await;
    let after = crew.start("one", "say after", WhenBusy::Queue).await.unwrap();
    assert_eq!(crew.ends(&[after.task.id]).await, [done("after")]);
    let taken = crew.taken("one");
    assert_eq!(taken[taken.len() - 2..], ["sleep 1\nsay urgent", "say after"]);
}

#[tokio::test]
async fn a_canceled_spec_of_a_starting_agent_does_not_run_on() {
    let crew = Crew::new().await;
    crew.create("one", "sleep 600").await;
    assert_eq!(crew.cancel("one").await.unwrap().task.unwrap().state(), TaskState::Canceled);
    crew.rests("one").await;
    let after = crew.give("one", "say after").await;
    assert_eq!(crew.ends(&[after]).await, [done("after")]);
}
