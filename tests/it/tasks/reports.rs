//! What agents say of themselves: claims that end tasks, questions, and words that come too late.

use chrono::{TimeDelta, Utc};
use fleet_mcp::app::caller::{Caller, Surface};
use fleet_mcp::app::error::Code;
use fleet_mcp::app::tasks::{ReportStatus, ReportedState, StartTask, StatusReported};
use fleet_mcp::app::tokens::CreateToken;
use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::history::{HistoryKind, Report};
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::{Claim, ClaimKind, TaskSource, TaskState, WhenBusy};
use fleet_mcp::domain::token::Refusal;
use fleet_mcp::domain::words::AppState;
use fleet_mcp::store::ReportEffect;
use secrecy::SecretString;

use crate::harness::{Crew, Pace, RunningFleet, Scene, eventually, operator, patient_options};

/// The agent itself, by a token of its own.
async fn agent(running: &RunningFleet, name: &str) -> Caller {
    let principal = running.fleet.token_principal(&token(running, name).await).await.unwrap().unwrap();
    Caller { principal, surface: Surface::Mcp, directory: None }
}

async fn token(running: &RunningFleet, name: &str) -> SecretString {
    let request = CreateToken {
        kind: None,
        name: None,
        role: Some("coder".to_owned()),
        agent: Some(name.to_owned()),
        projects: AllowedProjects::All,
        expires_at: None,
    };
    SecretString::from(running.fleet.token_create(&operator(), request).await.unwrap().reveal())
}

async fn report(
    crew: &Crew,
    caller: &Caller,
    state: ReportedState,
    question: Option<&str>,
) -> StatusReported {
    say(&crew.running, caller, (state, "in one sentence"), question).await
}

async fn say(
    running: &RunningFleet,
    caller: &Caller,
    (state, summary): (ReportedState, &str),
    question: Option<&str>,
) -> StatusReported {
    let request = ReportStatus {
        state,
        summary: summary.to_owned(),
        question: question.map(str::to_owned),
        uri: Some("https://forge.example/commit/1".to_owned()),
    };
    running.fleet.status_report(caller, request).await.unwrap()
}

#[tokio::test]
async fn a_claim_ends_the_task_and_stands_in_its_history() {
    let crew = Crew::with("one").await;
    let caller = agent(&crew.running, "one").await;
    let task = crew.give("one", "sleep 2\nsay its last words").await;
    crew.works("one").await;
    let working = report(&crew, &caller, ReportedState::Working, None).await;
    assert_eq!((working.message.as_str(), working.task.map(|task| task.id)), ("recorded", Some(task)));
    let complete = report(&crew, &caller, ReportedState::Complete, None).await;
    assert_eq!(complete.message, "recorded; this report ends your current task");
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, Some("in one sentence")));
    assert!(ended.stage.verified().is_some(), "its run had ended too");
    let agent = crew.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
    let page = PageRequest::parse(1, 100).unwrap();
    let page = crew.running.store.history_page(agent.id, Some(HistoryKind::Report), page).await.unwrap().page;
    let own = page.items.iter().filter(|entry| entry.line().message == "in one sentence");
    let own: Vec<_> = own.map(|entry| (entry.state(), entry.task_id(), entry.uri())).collect();
    let uri = Some("https://forge.example/commit/1");
    assert_eq!(own, [("complete", Some(task), uri), ("working", Some(task), uri)]);
}

#[tokio::test]
async fn a_question_ends_the_task_and_asks_for_input() {
    let crew = Crew::with("one").await;
    let caller = agent(&crew.running, "one").await;
    let task = crew.give("one", "sleep 2").await;
    crew.works("one").await;
    report(&crew, &caller, ReportedState::Idle, Some("Which one?")).await;
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, Some("Which one?")));
    asks_for(&crew, Attention::NeedsInput).await;
}

async fn asks_for(crew: &Crew, attention: Attention) {
    eventually("its attention is as expected", async || {
        let snapshot = crew.running.fleet.board().now();
        snapshot.by_name("one").unwrap().agent.sighting.attention == attention
    })
    .await;
}

#[tokio::test]
async fn a_question_without_a_task_asks_for_input_until_the_next_task() {
    let crew = Crew::with("one").await;
    let caller = agent(&crew.running, "one").await;
    let told = report(&crew, &caller, ReportedState::Idle, Some("Which one?")).await;
    assert_eq!((told.message.as_str(), told.task), ("recorded", None));
    asks_for(&crew, Attention::NeedsInput).await;
    let snapshot = crew.running.fleet.board().now();
    let sighting = &snapshot.by_name("one").unwrap().agent.sighting;
    assert_eq!((sighting.status, sighting.reason.as_str()), (AgentStatus::Idle, "Which one?"));
    let answer = crew.give("one", "say this one").await;
    crew.ended(answer).await;
    asks_for(&crew, Attention::None).await;
    report(&crew, &caller, ReportedState::Failure, None).await;
    asks_for(&crew, Attention::FailedTask).await;
    report(&crew, &caller, ReportedState::Idle, None).await;
    asks_for(&crew, Attention::None).await;
}

#[tokio::test]
async fn an_agent_that_goes_on_long_after_its_claim_is_interrupted_and_then_verified() {
    let crew = Crew::with_options("one", patient_options()).await;
    let task = crew.give("one", "commit Real work\nhang").await;
    let log = crew.site.workspace("one").join("repo/.git/logs/HEAD");
    let has_committed = async || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("Real work"));
    eventually("it has committed", has_committed).await;
    crew.works("one").await;
    let report = Report {
        id: TaskId::fresh().0,
        line: crew.running.store.task_by_id(task).await.unwrap().unwrap().entry,
        state: AppState::Complete,
        task_id: Some(task),
        uri: None,
        needs_answer: false,
    };
    let at = Utc::now() - TimeDelta::seconds(40);
    let claim = Claim { kind: ClaimKind::Complete, text: "all done".to_owned(), at };
    crew.running.store.report_add(&report, ReportEffect::Claim(task, &claim)).await.unwrap();
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, Some("all done")));
    crew.only_the_runner_is_left().await;
    let seen = ended.stage.verified().unwrap();
    assert_eq!((seen.commit.is_some(), seen.is_new, seen.is_pushed), (true, Some(true), false));
    crew.rests("one").await;
    let next = crew.give("one", "say fine again").await;
    assert_eq!(crew.ended(next).await.state(), TaskState::Done);
}

#[tokio::test]
async fn a_claimed_usage_limit_holds_the_task_back_once_and_only_when_its_run_is_over() {
    let crew = Crew::with("one").await;
    let caller = agent(&crew.running, "one").await;
    let task = crew.give("one", "sleep 2\nsay did it").await;
    crew.works("one").await;
    let limit = (ReportedState::Failure, "usage limit reached, try again in 2 seconds");
    say(&crew.running, &caller, limit, None).await;
    asks_for(&crew, Attention::Parked).await;
    crew.only_the_runner_is_left().await;
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, Some("did it")));
    assert_eq!(crew.taken("one").len(), 3, "its spec, and the task twice");
}

#[tokio::test]
async fn task_started_by_its_own_agent_has_source_agent() {
    let crew = Crew::with("one").await;
    let caller = agent(&crew.running, "one").await;
    let request = StartTask {
        name: "one".to_owned(),
        description: "say my own".to_owned(),
        when_busy: WhenBusy::Reject,
        timeout: None,
        request: None,
    };
    let task = crew.running.fleet.task_start(&caller, request).await.unwrap().task.id;
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.entry.source), (TaskState::Done, TaskSource::Agent));
}

#[tokio::test]
async fn a_report_counts_with_any_time_of_coders_clock() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.rests("one").await;
    let caller = agent(&scene.running, "one").await;
    scene.coder.backdate("one", TimeDelta::hours(-1));
    scene.running.fleet.poll_now();
    let told = say(&scene.running, &caller, (ReportedState::Idle, "at rest"), Some("Which one?")).await;
    assert_eq!(told.message, "recorded");
    eventually("input is asked for", async || {
        let snapshot = scene.running.fleet.board().now();
        snapshot.by_name("one").unwrap().agent.sighting.attention == Attention::NeedsInput
    })
    .await;
}

#[tokio::test]
async fn a_token_from_before_the_last_start_reports_nothing() {
    let crew = Crew::with("one").await;
    let outdated = token(&crew.running, "one").await;
    crew.running.restart_agent("one").await.unwrap();
    eventually("it has started anew", async || {
        let snapshot = crew.running.fleet.board().now();
        snapshot.by_name("one").unwrap().agent.sighting.generation == 3
    })
    .await;
    let refused = crew.running.fleet.token_principal(&outdated).await.unwrap().unwrap_err();
    assert_eq!(refused.reason, Refusal::StartedAnew);
}

#[tokio::test]
async fn only_agents_report_and_only_on_themselves() {
    let crew = Crew::new().await;
    let request = ReportStatus {
        state: ReportedState::Idle,
        summary: "not an agent".to_owned(),
        question: None,
        uri: None,
    };
    let refused = crew.running.fleet.status_report(&operator(), request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
}
