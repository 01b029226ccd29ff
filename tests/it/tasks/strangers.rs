//! Workspaces whose only app is something else than an agent: that is found out for certain, and then a run does it.

use std::sync::Arc;

use fleet_mcp::domain::task::{Channel, Task, TaskState};

use super::exec::commits;
use crate::harness::{
    Crew, FalseAnswer, FaultProxy, LocalSite, Matches, ProxyFault, Rule, RunningFleet, When, eventually,
    project,
};

/// Every request to the app of a workspace.
const APP: &str = "/@{user}/{workspace}/apps/{slug}/**";

/// A crew with an idle agent, whose app was replaced by another program without notice.
async fn replaced(by: impl FnOnce(&FaultProxy)) -> (Crew, FaultProxy) {
    let site = LocalSite::new().project(project("setup", None));
    let projects = site.directory.path().join("projects");
    std::fs::create_dir(&projects).unwrap();
    let file = "name = \"setup\"\ntemplate = \"setup\"\nengine = \"demo\"\n";
    std::fs::write(projects.join("setup.toml"), file).unwrap();
    let local = site.start().await;
    let proxy = FaultProxy::start(&local.url).await;
    let (url, token) = (proxy.url(), local.token.clone());
    let fleet = async |directory| {
        RunningFleet::start_embedded(directory, (&url, &token), projects.clone()).await.seen().await
    };
    let running = fleet(Arc::new(tempfile::tempdir().unwrap())).await;
    let mut crew = Crew { running, local, site };
    crew.agent("one").await;
    // Another process: what this one has seen last would still count for a moment.
    let directory = crew.running.stop().await;
    by(&proxy);
    crew.running = fleet(directory).await;
    crew.rests("one").await;
    (crew, proxy)
}

/// From now on the app answers like this to everything.
fn answers(proxy: &FaultProxy, status: u16, content_type: &str, body: &str) {
    let answer = FalseAnswer { status, content_type: content_type.to_owned(), body: body.to_owned() };
    let kind = ProxyFault::AnswerBefore(answer);
    proxy.fault(Rule { matches: Matches::path(APP), when: When::Always, kind });
}

/// It was run once, and the app got no task after the first.
async fn assert_run(crew: &Crew, task: Task, subject: &str) {
    assert_eq!((task.state(), task.channel()), (TaskState::Done, Some(Channel::Exec)));
    assert!(task.stage.verified().is_some_and(|seen| seen.is_new == Some(true)));
    assert_eq!((commits(crew, subject), crew.taken("one")), (1, vec!["say ready".to_owned()]));
}

#[tokio::test]
async fn an_app_that_knows_nothing_of_agents_leaves_the_task_to_a_run() {
    // Programs with a user interface have a page for everything.
    for (status, content_type) in [(404, "text/plain"), (200, "text/html")] {
        let (crew, _proxy) = replaced(|proxy| answers(proxy, status, content_type, "<html>")).await;
        let task = crew.give("one", "commit By exec").await;
        let ended = crew.ended(task).await;
        assert_run(&crew, ended, "By exec").await;
    }
}

#[tokio::test]
async fn error_page_proves_a_foreign_app_only_if_the_app_was_reached() {
    let (crew, proxy) = replaced(|proxy| answers(proxy, 404, "text/html", "<html>Not Found</html>")).await;
    let task = crew.give("one", "commit By exec").await;
    assert_waits(&crew, task).await;
    let front = FalseAnswer { status: 200, content_type: "text/html".to_owned(), body: "<html>".to_owned() };
    proxy.clear_faults();
    let kind = ProxyFault::AnswerBefore(front);
    proxy.fault(Rule {
        matches: Matches::path("/@{user}/{workspace}/apps/{slug}/"),
        when: When::Always,
        kind,
    });
    answers(&proxy, 404, "text/html", "<html>Not Found</html>");
    let ended = crew.ended(task).await;
    assert_run(&crew, ended, "By exec").await;
}

/// The app is known not to answer, and the task goes nowhere.
async fn assert_waits(crew: &Crew, task: fleet_mcp::domain::id::TaskId) {
    eventually("the agent is silent", async || {
        let task = crew.running.store.task_by_id(task).await.unwrap().unwrap();
        task.work.silent_since.is_some()
    })
    .await;
    let task = crew.running.store.task_by_id(task).await.unwrap().unwrap();
    assert_eq!((task.state(), task.channel()), (TaskState::Queued, None));
}

#[tokio::test]
async fn an_app_that_is_down_locked_or_busy_is_waited_for_and_told_once() {
    for (status, body) in [(502, "<html>Bad Gateway</html>"), (503, "<html>later</html>"), (401, "{}")] {
        let content_type = if body == "{}" { "application/json" } else { "text/html" };
        let (crew, proxy) = replaced(|proxy| answers(proxy, status, content_type, body)).await;
        let task = crew.give("one", "commit By the agent").await;
        assert_waits(&crew, task).await;
        proxy.clear_faults();
        let ended = crew.ended(task).await;
        assert_eq!((ended.state(), ended.channel()), (TaskState::Done, Some(Channel::Runner)), "{status}");
        assert_eq!(commits(&crew, "By the agent"), 1);
        assert_eq!(crew.taken("one"), ["say ready", "commit By the agent"]);
    }
}

#[tokio::test]
async fn an_app_that_turns_out_to_be_the_agent_after_a_moment_is_told_and_nothing_is_run() {
    let mut hits = None;
    let (crew, proxy) = replaced(|proxy| {
        let answer =
            FalseAnswer { status: 404, content_type: "text/plain".to_owned(), body: "starting".to_owned() };
        // Three questions are one look.
        let (matches, when) = (Matches::path(APP), When::First(9));
        hits = Some(proxy.fault(Rule { matches, when, kind: ProxyFault::AnswerBefore(answer) }));
    })
    .await;
    let task = crew.give("one", "commit By the agent").await;
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.channel()), (TaskState::Done, Some(Channel::Runner)));
    assert_eq!((proxy.fault_hits(hits.unwrap()), commits(&crew, "By the agent")), (9, 1));
}

#[tokio::test]
async fn a_task_that_is_run_is_not_told_to_an_agent_that_comes_up_meanwhile() {
    let (crew, proxy) = replaced(|proxy| answers(proxy, 404, "text/plain", "Not found")).await;
    let task = crew.give("one", "sleep 2\ncommit By exec").await;
    crew.works("one").await;
    proxy.clear_faults();
    let ended = crew.ended(task).await;
    assert_run(&crew, ended, "By exec").await;
    crew.rests("one").await;
    let next = crew.give("one", "commit By the agent").await;
    assert_eq!(crew.ended(next).await.channel(), Some(Channel::Runner));
}
