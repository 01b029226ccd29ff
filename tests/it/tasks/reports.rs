//! What agents say of themselves: claims that end tasks, questions, and words that come too late.

use fleet_mcp::app::caller::{Caller, Surface};
use fleet_mcp::app::error::Code;
use fleet_mcp::app::tasks::{ReportStatus, Reported, ReportedState};
use fleet_mcp::app::tokens::CreateToken;
use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::agent::Attention;
use fleet_mcp::domain::history::HistoryKind;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::TaskState;
use secrecy::SecretString;

use crate::harness::{Crew, eventually, operator};

/// The agent itself, by a token of its own.
async fn agent(crew: &Crew, name: &str) -> Caller {
    let request = CreateToken {
        kind: None,
        name: None,
        role: Some("coder".to_owned()),
        agent: Some(name.to_owned()),
        projects: AllowedProjects::All,
        expires_at: None,
    };
    let minted = crew.running.fleet.token_create(&operator(), request).await.unwrap();
    let token = SecretString::from(minted.reveal());
    let principal = crew.running.fleet.token_principal(&token).await.unwrap().unwrap();
    Caller { principal, surface: Surface::Mcp, directory: None }
}

async fn report(crew: &Crew, caller: &Caller, state: ReportedState, question: Option<&str>) -> Reported {
    let request = ReportStatus {
        state,
        summary: "in one sentence".to_owned(),
        question: question.map(str::to_owned),
        uri: Some("https://forge.example/commit/1".to_owned()),
    };
    crew.running.fleet.status_report(caller, request).await.unwrap()
}

#[tokio::test]
async fn a_claim_ends_the_task_and_stands_in_its_history() {
    let crew = Crew::with("one").await;
    let caller = agent(&crew, "one").await;
    let task = crew.give("one", "sleep 2\nsay its last words").await;
    crew.works("one").await;
    let working = report(&crew, &caller, ReportedState::Working, None).await;
    assert_eq!((working.message.as_str(), working.task.map(|task| task.id)), ("noted", Some(task)));
    let complete = report(&crew, &caller, ReportedState::Complete, None).await;
    assert_eq!(complete.message, "noted; it ends the task you are working on");
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.entry.outcome.as_deref()), (TaskState::Done, Some("in one sentence")));
    assert!(ended.work.verified.is_some(), "its run had ended too");
    let agent = crew.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
    let page = PageRequest::parse(1, 100).unwrap();
    let page = crew.running.store.journal_page(agent.id, Some(HistoryKind::Report), page).await.unwrap();
    let own = page.items.iter().filter(|entry| entry.message == "in one sentence");
    let own: Vec<_> = own.map(|entry| (entry.state.as_str(), entry.task_id, entry.uri.as_deref())).collect();
    let uri = Some("https://forge.example/commit/1");
    assert_eq!(own, [("complete", Some(task), uri), ("working", Some(task), uri)]);
}

#[tokio::test]
async fn a_question_ends_the_task_and_asks_for_input() {
    let crew = Crew::with("one").await;
    let caller = agent(&crew, "one").await;
    let task = crew.give("one", "sleep 2").await;
    crew.works("one").await;
    report(&crew, &caller, ReportedState::Idle, Some("Which one?")).await;
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.entry.outcome.as_deref()), (TaskState::Done, Some("Which one?")));
    eventually("input is asked for", async || {
        let snapshot = crew.running.fleet.board().now();
        snapshot.by_name("one").unwrap().agent.sighting.attention == Attention::NeedsInput
    })
    .await;
}

#[tokio::test]
async fn a_token_from_before_the_last_start_changes_nothing() {
    let crew = Crew::with("one").await;
    let outdated = agent(&crew, "one").await;
    crew.running.restart_agent("one").await.unwrap();
    eventually("it has started anew", async || {
        let snapshot = crew.running.fleet.board().now();
        snapshot.by_name("one").unwrap().agent.sighting.generation == 3
    })
    .await;
    crew.rests("one").await;
    let task = crew.give("one", "sleep 2\nsay in truth").await;
    crew.works("one").await;
    let told = report(&crew, &outdated, ReportedState::Failure, None).await;
    assert_eq!(told.message, "this token is from before the agent's last start; the report changes nothing");
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.entry.outcome.as_deref()), (TaskState::Done, Some("in truth")));
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
