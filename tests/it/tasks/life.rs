//! The course of a task: idle, busy, idle; over stops, deletion, restarts; many of them and many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::Utc;
use fleet_mcp::app::error::Code;
use fleet_mcp::app::history::ShowHistory;
use fleet_mcp::app::logs::ShowLog;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::history::HistoryKind;
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::rescue::RescueOutcome;
use fleet_mcp::domain::task::{Escalation, TaskMove, TaskState, WhenBusy};
use fleet_mcp::domain::task_plan::Ending;
use fleet_mcp::domain::task_stage::EndState;

use crate::harness::{Crew, RunningFleet, eventually, operator};

fn row(state: &str, message: &str, outcome: &str) -> (String, String, Option<String>) {
    (state.to_owned(), message.to_owned(), Some(outcome.to_owned()))
}

#[tokio::test]
async fn an_agent_is_idle_then_busy_then_idle_and_every_state_is_on_record() {
    let crew = Crew::with("one").await;
    let started = crew.start("one", "sleep 5\nsay done with it", WhenBusy::Reject).await.unwrap();
    assert_eq!((started.task.state(), started.status), (TaskState::Queued, AgentStatus::Busy));
    assert_eq!(started.message, "the task is being delivered to agent 'one'");
    crew.works("one").await;
    let state = crew.running.show("one").await.unwrap();
    assert_eq!(state.current_task(), Some("sleep 5\nsay done with it"));
    crew.rests("one").await;
    let task = crew.ended(started.task.id).await;
    assert_eq!((task.state(), task.outcome()), (TaskState::Done, Some("done with it")));
    let moves = crew.running.store.task_moves(&[task.id]).await.unwrap().remove(&task.id).unwrap();
    let told: Vec<(TaskState, &str, i64)> = moves
        .iter()
        .map(|TaskMove { state, reason, generation, .. }| (*state, reason.as_str(), *generation))
        .collect();
    let expected = [
        (TaskState::Queued, "accepted", 1),
        (TaskState::Delivering, "being delivered to the agent", 1),
        (TaskState::Working, "delivered to the agent (runner)", 1),
        (TaskState::Done, "done with it", 1),
    ];
    assert_eq!(told, expected);
    assert!(moves.is_sorted_by_key(|moved| moved.at));
    assert_eq!(crew.taken("one"), ["say ready", "sleep 5\nsay done with it"]);
}

#[tokio::test]
async fn a_task_that_the_history_shows_as_ended_is_current_in_no_later_answer() {
    let crew = Crew::with("one").await;
    let id = crew.give("one", "sleep 60").await;
    crew.works("one").await;
    // Recorded and not shown yet, as between the two steps of every end.
    let mut task = crew.running.store.task_by_id(id).await.unwrap().unwrap();
    let (state, reached) = (EndState::Failed, Escalation::None);
    let ending = Ending { state, outcome: None, needs_answer: false, reached };
    task.end(&ending, None, Utc::now());
    assert!(crew.running.store.task_save(&task, &[(TaskState::Failed, "over")], Utc::now()).await.unwrap());
    let (name, page) = ("one".to_owned(), PageRequest::parse(1, 1).unwrap());
    let request = ShowHistory { name, kind: Some(HistoryKind::Task), page, workspace: None };
    let history = crew.running.fleet.agent_history(&operator(), request).await.unwrap();
    let shown = crew.running.fleet.board().now().by_name("one").unwrap().current_task().map(str::to_owned);
    assert_eq!((history.page.items[0].state(), shown), ("failed", None));
}

#[tokio::test]
async fn the_spec_is_the_first_task_and_ends_like_any_other() {
    let crew = Crew::with("one").await;
    assert_eq!(crew.tasks("one").await, [row("done", "say ready", "ready")]);
    assert_eq!(crew.taken("one"), ["say ready"]);
}

#[tokio::test]
async fn a_task_given_while_the_agent_starts_is_held_until_it_is_ready() {
    let crew = Crew::new().await;
    crew.create("one", "say spec").await;
    let held = crew.start("one", "say held", WhenBusy::Reject).await.unwrap();
    assert_eq!(held.message, "the task is held until agent 'one' is ready; 1 before it");
    let refused = crew.start("one", "say too much", WhenBusy::Reject).await.unwrap_err();
    assert_eq!((refused.code(), refused.to_string()), (Code::AgentBusy, "agent 'one' is busy".to_owned()));
    crew.ended(held.task.id).await;
    crew.rests("one").await;
    assert_eq!(crew.tasks("one").await, [row("done", "say spec", "spec"), row("done", "say held", "held")]);
    assert_eq!(crew.taken("one"), ["say spec", "say held"]);
}

#[tokio::test]
async fn a_stopped_agent_refuses_tasks_and_goes_on_with_what_it_had_at_the_next_start() {
    let crew = Crew::with("one").await;
    let busy = crew.give("one", "say first half\nsleep 10\nsay second half").await;
    crew.works("one").await;
    crew.says("one", "first half").await;
    let waiting = crew.start("one", "say later", WhenBusy::Queue).await.unwrap().task.id;
    crew.running.stop_agent("one").await.unwrap();
    crew.running.becomes("one", AgentStatus::Stopped).await;
    let refused = crew.start("one", "say no", WhenBusy::Queue).await.unwrap_err();
    let expected = (Code::AgentNotReady, "agent 'one' is not running (stopped)".to_owned());
    assert_eq!((refused.code(), refused.to_string()), expected);
    let parked = crew.running.store.task_by_id(busy).await.unwrap().unwrap();
    assert_eq!(parked.state(), TaskState::Working, "{parked:?}");
    crew.running.start_agent("one").await.unwrap();
    let later = crew.ended(waiting).await;
    assert_eq!((later.state(), later.entry.generation), (TaskState::Done, 3));
    let tasks = crew.tasks("one").await;
    let done = [
        row("done", "say ready", "ready"),
        row("done", "say first half\nsleep 10\nsay second half", "second half"),
        row("done", "say later", "later"),
    ];
    assert_eq!(tasks, done);
    let taken = crew.taken("one");
    assert_eq!(
        [&taken[..2], &taken[3..]].concat(),
        ["say ready", "say first half\nsleep 10\nsay second half", "say later"]
    );
    assert!(taken[2].starts_with("You were interrupted by a restart"), "{}", taken[2]);
}

#[tokio::test]
async fn a_task_that_is_canceled_while_its_agent_is_stopped_does_not_go_on() {
    let crew = Crew::new().await;
    for name in ["one", "two", "three"] {
        crew.create(name, "sleep 600").await;
        crew.works(name).await;
        crew.running.stop_agent(name).await.unwrap();
        crew.running.becomes(name, AgentStatus::Stopped).await;
        assert_eq!(crew.cancel(name).await.unwrap().task.unwrap().state(), TaskState::Canceled);
        crew.running.start_agent(name).await.unwrap();
        crew.rests(name).await;
        let states: Vec<String> = crew.tasks(name).await.into_iter().map(|(state, _, _)| state).collect();
        assert_eq!(states, ["canceled"]);
        assert_eq!(crew.delivered(name), ["sleep 600"]);
    }
}

#[tokio::test]
async fn an_agent_is_deleted_while_it_is_busy_its_work_is_saved_and_its_history_says_canceled() {
    let crew = Crew::with("one").await;
    let busy = crew.give("one", "commit Half of it\nsleep 600").await;
    crew.works("one").await;
    let head = crew.site.workspace("one").join("repo/.git/refs/heads");
    eventually("the first half is there", async || head.read_dir().unwrap().next().is_some()).await;
    crew.running.delete("one").await.unwrap();
    crew.running.is_gone("one").await;
    assert_eq!(crew.ended(busy).await.state(), TaskState::Canceled);
    assert_eq!(crew.site.processes(), Vec::<u32>::new());
    let page = PageRequest::parse(1, 10).unwrap();
    let rescues = crew.running.fleet.rescue_list(&operator(), page).await.unwrap().items;
    let saved: Vec<bool> =
        rescues.iter().map(|info| matches!(info.rescue.outcome, RescueOutcome::Saved(_))).collect();
    assert_eq!(saved, [true], "{rescues:?}");
    let states: Vec<String> = crew.tasks("one").await.into_iter().map(|(state, _, _)| state).collect();
    assert_eq!(states, ["done", "canceled"]);
}

#[tokio::test]
async fn queued_tasks_go_on_in_order_after_a_restart_of_the_control_plane() {
    let Crew { running, local, site } = Crew::with("one").await;
    let crew = Crew { running, local, site };
    crew.give("one", "sleep 1").await;
    let mut waiting = Vec::new();
    for number in 0..3 {
        let text = format!("say {number}");
        waiting.push(crew.start("one", &text, WhenBusy::Queue).await.unwrap().task.id);
    }
    let Crew { running, local, site } = crew;
    let directory = running.stop().await;
    let running = RunningFleet::start_in(directory, &local.url, &local.token).await.seen().await;
    let crew = Crew { running, local, site };
    for task in waiting {
        assert_eq!(crew.ended(task).await.state(), TaskState::Done);
    }
    assert_eq!(crew.taken("one"), ["say ready", "sleep 1", "say 0", "say 1", "say 2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_tasks_on_one_agent_are_done_once_each_in_their_order() {
    let crew = Crew::with("one").await;
    let mut last = None;
    for number in 0..100 {
        let text = format!("say {number}");
        last = Some(crew.start("one", &text, WhenBusy::Queue).await.unwrap().task.id);
    }
    crew.ended(last.unwrap()).await;
    let mut expected = vec!["say ready".to_owned()];
    expected.extend((0..100).map(|number| format!("say {number}")));
    assert_eq!(crew.taken("one"), expected);
    assert!(crew.tasks("one").await.iter().all(|(state, _, _)| state == "done"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_agents_work_in_parallel_and_become_idle() {
    let crew = Crew::new().await;
    let names: Vec<String> = (0..10).map(|number| format!("agent-{number}")).collect();
    for name in &names {
        crew.create(name, "say ready").await;
    }
    for name in &names {
        crew.rests(name).await;
    }
    for name in &names {
        crew.give(name, "sleep 8\ncommit Work").await;
    }
    eventually("all are busy at once", async || {
        crew.running.fleet.board().now().counts().get(&AgentStatus::Busy) == Some(&10)
    })
    .await;
    for name in &names {
        crew.rests(name).await;
        let last = crew.tasks(name).await.pop().unwrap();
        assert_eq!((last.0.as_str(), last.1.as_str()), ("done", "sleep 8\ncommit Work"));
    }
}

#[tokio::test]
async fn messages_of_an_agent_are_kept_if_it_is_stopped_or_deleted_during_a_task() {
    let crew = Crew::new().await;
    let task = "say half of it\nsleep 600";
    for name in ["one", "two"] {
        crew.create(name, task).await;
        crew.works(name).await;
        crew.says(name, "half of it").await;
    }
    crew.running.stop_agent("one").await.unwrap();
    crew.running.becomes("one", AgentStatus::Stopped).await;
    crew.running.delete("two").await.unwrap();
    crew.running.is_gone("two").await;
    for name in ["one", "two"] {
        let request = ShowLog { name: name.to_owned(), page: PageRequest::parse(1, 10).unwrap() };
        let log = crew.running.fleet.agent_log(&operator(), request).await.unwrap().page.items;
        let said: Vec<&str> = log.iter().rev().map(|entry| entry.content.trim()).collect();
        assert_eq!(said, [task, "half of it"], "{name}");
    }
}

#[tokio::test]
async fn every_report_of_quick_tasks_belongs_to_its_task() {
    let crew = Crew::with("one").await;
    let mut last = None;
    for number in 0..8 {
        let text = format!("say {number}");
        last = Some(crew.start("one", &text, WhenBusy::Queue).await.unwrap().task.id);
    }
    crew.ended(last.unwrap()).await;
    let agent = crew.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
    let entries = async || {
        let page = PageRequest::parse(1, 100).unwrap();
        crew.running.store.history_page(agent.id, None, page).await.unwrap().page.items
    };
    eventually("the last report has come", async || {
        entries().await.iter().any(|entry| entry.state() == "complete" && entry.line().message == "7")
    })
    .await;
    let history = entries().await;
    let text_of =
        |id: TaskId| history.iter().find(|entry| entry.id() == id.0).map(|task| task.line().message.as_str());
    for report in history.iter().filter(|entry| entry.kind() == HistoryKind::Report) {
        let text = report.task_id().and_then(text_of);
        let (begun, ended) = (report.line().message.clone(), format!("say {}", report.line().message));
        assert!(text == Some(begun.as_str()) || text == Some(ended.as_str()), "{text:?}: {report:?}");
    }
}

/// Looks without a pause, as many clients at once would: a row speaks of one moment, in all its fields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_ever_names_a_task_as_current_that_has_ended() {
    let crew = Crew::with("one").await;
    let (fleet, stop) = (crew.running.fleet.clone(), Arc::new(AtomicBool::new(false)));
    let until = Arc::clone(&stop);
    let looking = tokio::task::spawn_blocking(move || {
        let (mut n_looks, mut wrong) = (0_u64, Vec::new());
        while !until.load(Ordering::Relaxed) {
            n_looks += 1;
            let snapshot = fleet.board().now();
            let Some(state) = snapshot.by_name("one") else { continue };
            let last = state.tasks.last.as_ref().map(|task| task.entry.message.as_str());
            let current = state.current_task();
            if current.is_some() && current == last && !wrong.contains(&current.map(str::to_owned)) {
                wrong.push(current.map(str::to_owned));
            }
        }
        (n_looks, wrong)
    });
    let texts = ["say a", "say b", "say c", "say d", "say e", "say f"];
    let mut given = Vec::new();
    for text in texts {
        given.push(crew.start("one", text, WhenBusy::Queue).await.unwrap().task.id);
    }
    for task in given {
        crew.ended(task).await;
    }
    crew.rests("one").await;
    stop.store(true, Ordering::Relaxed);
    let (n_looks, wrong) = looking.await.unwrap();
    assert!(n_looks > 1_000, "{n_looks} looks");
    assert_eq!(wrong, Vec::<Option<String>>::new());
}
