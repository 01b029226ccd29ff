//! Agents that speak plain AgentAPI: told at most once, read back by text and time.

use std::sync::Arc;

use fleet_mcp::app::tasks::StartTask;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::task::{Task, TaskState, WhenBusy};

use crate::harness::{
    AgentScript, FalseAnswer, Fault, FaultProxy, Matches, Pace, ProxyFault, Rule, RunningFleet, Scene, When,
    client, eventually, hurried_options, operator, stub,
};

const MESSAGE: &str = "/@{user}/{workspace}/apps/{slug}/message";

async fn give(running: &RunningFleet, text: &str) -> TaskId {
    let request = StartTask {
        name: "one".to_owned(),
        description: text.to_owned(),
        when_busy: WhenBusy::Reject,
        timeout: None,
        request: None,
    };
    running.fleet.task_start(&operator(), request).await.unwrap().task.id
}

async fn ended(running: &RunningFleet, task: TaskId) -> Task {
    eventually("the task has ended", async || {
        running.store.task_by_id(task).await.unwrap().unwrap().state().is_ended()
    })
    .await;
    running.store.task_by_id(task).await.unwrap().unwrap()
}

async fn working(running: &RunningFleet, task: TaskId) {
    eventually("the agent has it", async || {
        running.store.task_by_id(task).await.unwrap().unwrap().state() == TaskState::Working
    })
    .await;
}

async fn ready() -> Scene {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.rests("one").await;
    scene
}

/// How often the agent got this text.
fn times_told(scene: &crate::harness::CoderStub, text: &str) -> usize {
    let requests = scene.app_requests("one");
    requests.iter().filter(|request| request.method == "POST" && request.body.contains(text)).count()
}

#[tokio::test]
async fn a_text_is_told_without_a_task_id_and_ends_with_the_agents_answer() {
    let scene = ready().await;
    scene.coder.set_agent_script("one", AgentScript::Work);
    let task = give(&scene.running, "Write a test").await;
    working(&scene.running, task).await;
    assert_eq!(scene.running.status("one"), Some(AgentStatus::Busy));
    scene.coder.agent_finishes("one", "wrote it");
    let task = ended(&scene.running, task).await;
    assert_eq!((task.state(), task.outcome()), (TaskState::Done, Some("wrote it")));
    assert_eq!(task.stage.verified(), None, "nothing could be seen");
    let told: Vec<String> = scene.coder.app_requests("one").into_iter().map(|request| request.body).collect();
    let posted: Vec<&String> = told.iter().filter(|body| !body.is_empty()).collect();
    assert_eq!(posted, [r#"{"content":"Write a test","type":"user"}"#]);
}

#[tokio::test]
async fn the_spec_that_a_template_gives_its_agent_is_followed_and_not_told_again() {
    let scene = ready().await;
    assert_eq!(times_told(&scene.coder, "Fix the login bug"), 0);
    let snapshot = scene.running.fleet.board().now();
    let last = snapshot.by_name("one").unwrap().tasks.last.clone().unwrap();
    let expected = (TaskState::Done, Some("done: ## Objective\nFix the login bug"));
    assert_eq!((last.state(), last.outcome()), expected);
}

#[tokio::test]
async fn an_answer_that_is_lost_or_false_after_the_effect_leads_to_no_second_telling() {
    let false_500 = FalseAnswer {
        status: 502,
        content_type: "text/html".into(),
        body: "<html>Bad Gateway</html>".into(),
    };
    // AgentAPI says this also when it has typed the text and then did not see it taken.
    let typed = r#"{"title":"Internal Server Error","status":500,"errors":[{"message":"failed to send message: timed out"}]}"#;
    let typed =
        FalseAnswer { status: 500, content_type: "application/problem+json".into(), body: typed.into() };
    for kind in [
        ProxyFault::CutAfter,
        ProxyFault::AnswerAfter(false_500),
        ProxyFault::AnswerAfter(typed),
        ProxyFault::CutInBody { bytes: 3 },
    ] {
        let coder = stub(Pace::Instant).await;
        let proxy = FaultProxy::start(coder.url()).await;
        let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
        running.create("one").await.unwrap();
        running.rests("one").await;
        let hits = proxy.fault(Rule { matches: Matches::call("POST", MESSAGE), when: When::Always, kind });
        let task = give(&running, "Only once").await;
        let task = ended(&running, task).await;
        assert_eq!((task.state(), task.outcome()), (TaskState::Done, Some("done: Only once")));
        assert_eq!((times_told(&coder, "Only once"), proxy.fault_hits(hits)), (1, 1));
        running.stop().await;
    }
}

#[tokio::test]
async fn a_text_that_never_shows_up_is_not_sent_again_and_the_task_says_so() {
    let coder = stub(Pace::Instant).await;
    let proxy = FaultProxy::start(coder.url()).await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let running =
        RunningFleet::start_with(directory, client(&proxy.url(), &coder.token()), hurried_options());
    let running = running.await.seen().await;
    running.create("one").await.unwrap();
    running.rests("one").await;
    let kind = ProxyFault::CutBefore;
    proxy.fault(Rule { matches: Matches::call("POST", MESSAGE), when: When::Always, kind });
    let task = give(&running, "Lost").await;
    let task = ended(&running, task).await;
    assert_eq!(task.state(), TaskState::Failed);
    let outcome = "it is unknown whether the message was delivered; it was not sent again, so that no work is done twice";
    assert_eq!(task.outcome(), Some(outcome));
    proxy.clear_faults();
    running.rests("one").await;
    let next = give(&running, "Found").await;
    assert_eq!(ended(&running, next).await.state(), TaskState::Done);
    assert_eq!(times_told(&coder, "Lost"), 0);
}

#[tokio::test]
async fn an_agent_that_is_at_work_by_itself_is_waited_for() {
    let scene = ready().await;
    scene.coder.post_app_status("one", "working", "what a person asked for");
    scene.running.becomes("one", AgentStatus::Busy).await;
    let request = StartTask {
        name: "one".to_owned(),
        description: "After you".to_owned(),
        when_busy: WhenBusy::Queue,
        timeout: None,
        request: None,
    };
    let task = scene.running.fleet.task_start(&operator(), request).await.unwrap().task.id;
    scene.running.fleet.poll_now();
    assert_eq!(times_told(&scene.coder, "After you"), 0);
    scene.coder.post_app_status("one", "complete", "done with that");
    assert_eq!(ended(&scene.running, task).await.state(), TaskState::Done);
    assert_eq!(times_told(&scene.coder, "After you"), 1);
}

#[tokio::test]
async fn a_task_in_the_middle_of_a_restart_has_failed_and_is_not_told_again() {
    let scene = ready().await;
    scene.coder.set_agent_script("one", AgentScript::Work);
    let task = give(&scene.running, "Half done").await;
    working(&scene.running, task).await;
    scene.running.restart_agent("one").await.unwrap();
    let task = ended(&scene.running, task).await;
    assert!(matches!(task.state(), TaskState::Failed | TaskState::Canceled), "{task:?}");
    assert_eq!(times_told(&scene.coder, "Half done"), 1);
}

#[tokio::test]
async fn working_reported_for_ever_by_a_dead_process_is_not_believed() {
    let scene = ready().await;
    scene.coder.post_app_status_of_the_dead("one", "working", "Still at it");
    eventually("the report is known", async || {
        let agent = scene.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
        let page = fleet_mcp::domain::page::PageRequest::parse(1, 20).unwrap();
        let page = scene.running.store.history_page(agent.id, None, page).await.unwrap().page;
        page.items.iter().any(|entry| entry.line().message == "Still at it")
    })
    .await;
    scene.running.becomes("one", AgentStatus::Idle).await;
    let task = give(&scene.running, "Go on").await;
    assert_eq!(ended(&scene.running, task).await.state(), TaskState::Done);
}

#[tokio::test]
async fn a_text_that_a_rate_limit_held_back_is_told_later_and_not_given_up() {
    let scene = ready().await;
    let kind = Fault::RateLimited { retry_after: 60, reset_after: 60 };
    let hits =
        scene.coder.fault(Rule { matches: Matches::call("POST", MESSAGE), when: When::First(1), kind });
    let task = give(&scene.running, "Write a test").await;
    let task = ended(&scene.running, task).await;
    assert_eq!((task.state(), task.outcome()), (TaskState::Done, Some("done: Write a test")));
    assert_eq!((scene.coder.fault_hits(hits), times_told(&scene.coder, "Write a test")), (1, 1));
}
