//! What happens to a task for an agent that has one: refused, queued, or in its place.

use fleet_mcp::app::error::Code;
use fleet_mcp::domain::task::{TaskState, WhenBusy};

use crate::harness::{Crew, operator};

#[tokio::test]
async fn of_two_starts_at_once_one_wins_and_the_other_is_told_that_the_agent_is_busy() {
    let crew = Crew::with("one").await;
    let (first, second) = tokio::join!(
        crew.start("one", "sleep 1\nsay a", WhenBusy::Reject),
        crew.start("one", "sleep 1\nsay b", WhenBusy::Reject)
    );
    let refused =
        [&first, &second].into_iter().filter_map(|result| result.as_ref().err()).collect::<Vec<_>>();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (refused[0].code(), refused[0].to_string()),
        (Code::AgentBusy, "agent 'one' is busy".to_owned())
    );
    crew.rests("one").await;
    assert_eq!(crew.taken("one").len(), 2);
}

#[tokio::test]
async fn a_queued_task_starts_by_itself_when_the_one_before_has_ended() {
    let crew = Crew::with("one").await;
    let first = crew.give("one", "sleep 5\nsay first").await;
    crew.works("one").await;
    let queued = crew.start("one", "say second", WhenBusy::Queue).await.unwrap();
    assert_eq!(queued.message, "the task is queued for agent 'one'; 1 before it");
    assert_eq!(crew.ended(queued.task.id).await.state(), TaskState::Done);
    assert_eq!(crew.ended(first).await.state(), TaskState::Done);
    assert_eq!(crew.taken("one"), ["say ready", "sleep 5\nsay first", "say second"]);
}

#[tokio::test]
async fn squad_overview_lists_every_queued_task() {
    let crew = Crew::with("one").await;
    crew.agent("two").await;
    for (name, waiting) in [("one", ["say a", "say b"]), ("two", ["say c", "say d"])] {
        crew.give(name, "sleep 600").await;
        crew.works(name).await;
        for task in waiting {
            crew.start(name, task, WhenBusy::Queue).await.unwrap();
        }
    }
    let pending = crew.running.fleet.squad_overview(&operator()).await.unwrap().pending;
    let pending: Vec<_> = pending
        .iter()
        .map(|(state, task)| (state.agent.name.as_str(), task.entry.message.as_str()))
        .collect();
    assert_eq!(pending, [("one", "say a"), ("one", "say b"), ("two", "say c"), ("two", "say d")]);
}
