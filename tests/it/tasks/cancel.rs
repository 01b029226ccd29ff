//! Canceling: the interruption, the harder steps, and agents that do not react.

use fleet_mcp::app::error::Code;
use fleet_mcp::app::tasks::{CancelTask, TaskCanceled};
use fleet_mcp::coder::AppRequest;
use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::history::HistoryKind;
use fleet_mcp::domain::limits::Limits;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::{Escalation, TaskState, WhenBusy};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::{
    Crew, Matches, ProxyFault, Rule, When, eventually, frozen_runner_options, hurried_options, operator,
    patient_options,
};

use super::faults::behind_a_proxy_with;

/// Commands in a workspace go this way.
const TERMINAL: &str = "/api/v2/workspaceagents/{id}/pty";

fn told(canceled: &TaskCanceled) -> (Option<TaskState>, AgentStatus, Escalation) {
    (canceled.task.as_ref().map(|task| task.state()), canceled.status, canceled.reached)
}

fn signal_runner(crew: &Crew, signal: Signal) {
    kill_process(Pid::from_raw(crew.site.runner().cast_signed()).unwrap(), signal).unwrap();
}

/// The words of the agent's last report, once it is the one of an interruption; a failure would ask for attention.
async fn reports_an_interruption(crew: &Crew) {
    let agent = crew.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
    let page = PageRequest::parse(1, 100).unwrap();
    eventually("the interruption is reported", async || {
        let reports = crew
            .running
            .store
            .history_page(agent.id, Some(HistoryKind::Report), page)
            .await
            .unwrap()
            .page
            .items;
        assert!(reports.iter().all(|report| report.state() != "failure"), "{reports:?}");
        reports[0].line().message == "Interrupted on request."
    })
    .await;
    let snapshot = crew.running.fleet.board().now();
    assert_eq!(snapshot.by_name("one").unwrap().agent.sighting.attention, Attention::None);
}

/// A person writes to the agent without the fleet.
async fn tell_past_the_fleet(crew: &Crew, text: &str) {
    let body = json!({ "content": text, "type": "user" });
    assert_eq!(crew.ask_app("one", AppRequest::post("/message", body)).await.status, 200);
    crew.running.becomes("one", AgentStatus::Busy).await;
    eventually("the engine runs", async || crew.site.engines().len() == 1).await;
}

#[tokio::test]
async fn cancel_ends_an_engine_that_ignores_signals_and_records_canceled() {
    let crew = Crew::with("one").await;
    crew.give("one", "hang").await;
    crew.works("one").await;
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(told(&canceled), (Some(TaskState::Canceled), AgentStatus::Idle, Escalation::Interrupt));
    crew.only_the_runner_is_left().await;
    let last = crew.tasks("one").await.pop().unwrap();
    assert_eq!((last.0.as_str(), last.1.as_str()), ("canceled", "hang"));
    let next = crew.give("one", "say fine again").await;
    assert_eq!(crew.ended(next).await.state(), TaskState::Done);
}

#[tokio::test]
async fn without_a_task_there_is_nothing_to_cancel() {
    let crew = Crew::with("one").await;
    let refused = crew.cancel("one").await.unwrap_err();
    let expected = (Code::NoTask, "agent 'one' has no task to cancel".to_owned());
    assert_eq!((refused.code(), refused.to_string()), expected);
}

#[tokio::test]
async fn the_queue_goes_on_unless_all_are_canceled() {
    let crew = Crew::with("one").await;
    crew.give("one", "sleep 600").await;
    crew.works("one").await;
    let next = crew.start("one", "sleep 601", WhenBusy::Queue).await.unwrap().task.id;
    let last = crew.start("one", "say never", WhenBusy::Queue).await.unwrap().task.id;
    crew.cancel("one").await.unwrap();
    crew.works("one").await;
    let all = CancelTask { name: "one".to_owned(), all: true, escalate: false };
    crew.running.fleet.task_cancel(&operator(), all).await.unwrap();
    for task in [next, last] {
        assert_eq!(crew.ended(task).await.state(), TaskState::Canceled);
    }
    crew.rests("one").await;
    assert_eq!(crew.taken("one"), ["say ready", "sleep 600", "sleep 601"]);
}

#[tokio::test]
async fn cancel_signals_the_engine_past_a_frozen_runner() {
    let crew = Crew::with_options("one", frozen_runner_options()).await;
    let task = crew.give("one", "sleep 600").await;
    crew.works("one").await;
    signal_runner(&crew, Signal::STOP);
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(told(&canceled), (Some(TaskState::Canceled), AgentStatus::Idle, Escalation::Signals));
    assert_eq!(canceled.message, "the task of agent 'one' is canceled; its processes were terminated");
    let ended = crew.ended(task).await;
    let outcome = "the agent did not react, so its processes were terminated";
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Canceled, Some(outcome)));
    crew.only_the_runner_is_left().await;
    reports_an_interruption(&crew).await;
    let next = crew.give("one", "say awake").await;
    assert_eq!(crew.ended(next).await.state(), TaskState::Done);
    assert_eq!(crew.taken("one"), ["say ready", "sleep 600", "say awake"]);
}

#[tokio::test]
async fn work_that_is_no_task_is_ended_too_and_the_answer_says_what_helped() {
    let crew = Crew::with_options("one", patient_options()).await;
    tell_past_the_fleet(&crew, "sleep 600").await;
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(told(&canceled), (None, AgentStatus::Idle, Escalation::Interrupt));
    assert_eq!(canceled.message, "agent 'one' was interrupted");
    crew.only_the_runner_is_left().await;
    reports_an_interruption(&crew).await;
}

#[tokio::test]
async fn work_that_is_no_task_is_ended_by_signals_past_a_frozen_runner() {
    let crew = Crew::with_options("one", frozen_runner_options()).await;
    tell_past_the_fleet(&crew, "sleep 600").await;
    signal_runner(&crew, Signal::STOP);
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(told(&canceled), (None, AgentStatus::Idle, Escalation::Signals));
    assert_eq!(canceled.message, "agent 'one' did not react, so its processes were terminated");
    crew.only_the_runner_is_left().await;
    reports_an_interruption(&crew).await;
}

#[tokio::test]
async fn work_that_nothing_ends_is_not_said_to_be_interrupted() {
    let (crew, proxy) = behind_a_proxy_with(hurried_options()).await;
    tell_past_the_fleet(&crew, "sleep 600").await;
    signal_runner(&crew, Signal::STOP);
    proxy.fault(Rule { matches: Matches::path(TERMINAL), when: When::Always, kind: ProxyFault::Stall });
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(told(&canceled), (None, AgentStatus::Busy, Escalation::None));
    assert_eq!(canceled.message, "agent 'one' does not react; call restart_agent if it keeps working");
}

#[tokio::test]
async fn a_parked_task_is_canceled_without_a_doubt() {
    let crew = Crew::with("one").await;
    crew.give("one", "fail usage limit reached, try again in 30 minutes").await;
    eventually("it is parked", async || {
        let snapshot = crew.running.fleet.board().now();
        snapshot.by_name("one").unwrap().agent.sighting.attention == Attention::Parked
    })
    .await;
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(canceled.task.map(|task| task.state()), Some(TaskState::Canceled));
    assert_eq!(canceled.message, "the task of agent 'one' is canceled");
}

#[tokio::test]
async fn a_task_that_a_stop_parked_is_canceled_without_another_stop() {
    let crew = Crew::with("one").await;
    crew.give("one", "sleep 600").await;
    crew.works("one").await;
    crew.running.stop_agent("one").await.unwrap();
    crew.running.becomes("one", AgentStatus::Stopped).await;
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(canceled.task.as_ref().map(|task| task.state()), Some(TaskState::Canceled));
    assert_eq!((canceled.status, canceled.reached), (AgentStatus::Stopped, Escalation::None));
    assert_eq!(canceled.message, "the task of agent 'one' is canceled");
}

#[tokio::test]
async fn an_agent_that_nothing_reaches_is_stopped_if_that_is_allowed() {
    let mut options = hurried_options();
    // The stop of the workspace, which the answer waits for, takes as long as the machine needs.
    options.limits.cancel_answer = Limits::NORMAL.cancel_answer;
    let (crew, proxy) = behind_a_proxy_with(options).await;
    let task = crew.give("one", "sleep 600").await;
    crew.works("one").await;
    signal_runner(&crew, Signal::STOP);
    proxy.fault(Rule { matches: Matches::path(TERMINAL), when: When::Always, kind: ProxyFault::Stall });
    let request = CancelTask { name: "one".to_owned(), all: false, escalate: true };
    let canceled = crew.running.fleet.task_cancel(&operator(), request).await.unwrap();
    assert_eq!(canceled.reached, Escalation::Stop);
    assert_eq!(crew.ended(task).await.state(), TaskState::Canceled);
    crew.running.becomes("one", AgentStatus::Stopped).await;
    assert_eq!(crew.site.processes(), Vec::<u32>::new());
}

#[tokio::test]
async fn work_that_went_on_after_its_cancel_is_ended_once_the_agent_answers_again() {
    let (crew, proxy) = behind_a_proxy_with(hurried_options()).await;
    let task = crew.give("one", "sleep 600").await;
    crew.works("one").await;
    signal_runner(&crew, Signal::STOP);
    proxy.fault(Rule { matches: Matches::path(TERMINAL), when: When::Always, kind: ProxyFault::Stall });
    let canceled = crew.cancel("one").await.unwrap();
    assert_eq!(
        (canceled.task.map(|task| task.state()), canceled.reached),
        (Some(TaskState::Canceled), Escalation::None)
    );
    assert_eq!(crew.ended(task).await.state(), TaskState::Canceled);
    signal_runner(&crew, Signal::CONT);
    crew.rests("one").await;
    let next = crew.give("one", "say awake").await;
    assert_eq!(crew.ended(next).await.state(), TaskState::Done);
    assert_eq!(crew.taken("one"), ["say ready", "sleep 600", "say awake"]);
}
