//! Commands that give work to agents, wait for it and end it, and the log.

use fleet_mcp::view::agent::{AgentDetail, AgentRow, AgentShown, AgentsWaited, ChangedAgent};
use fleet_mcp::view::history::{HistoryRow, TaskHistory};
use fleet_mcp::view::log::{LogPage, LogRow};
use fleet_mcp::view::task::{CanceledTask, StartedTask, TaskSummary};
use insta::assert_snapshot;

use super::Rig;
use super::answers::{detail, paging, row};

fn task(state: &str, outcome: Option<&str>) -> TaskSummary {
    TaskSummary {
        id: "0190e1a2-0000-7000-8000-000000000001".into(),
        message: "Add a test".into(),
        state: state.into(),
        outcome: outcome.map(str::to_owned),
        source: "human".into(),
        verified: None,
        created_at: "2026-11-16T06:00:00.000Z".into(),
    }
}

fn started() -> StartedTask {
    StartedTask {
        task: task("queued", None),
        agent_status: "busy".into(),
        agent_name: "fix-login".into(),
        task_description: "Add a test".into(),
        message: "the task is being delivered to agent 'fix-login'".into(),
        cursor: "7".into(),
    }
}

fn done(last: Option<TaskSummary>) -> AgentsWaited {
    let agent = AgentRow { last_task: last, observed_at: None, ..row("fix-login", "idle") };
    let changed = vec![ChangedAgent { agent, previous_status: Some("busy".into()) }];
    AgentsWaited { changed, cursor: "9".into(), timed_out: false }
}

fn history(tasks: &[TaskSummary]) -> TaskHistory {
    let entry = |task: &TaskSummary| HistoryRow {
        id: task.id.clone(),
        kind: "task".into(),
        message: task.message.clone(),
        state: task.state.clone(),
        outcome: task.outcome.clone(),
        source: task.source.clone(),
        task_id: None,
        uri: None,
        needs_user_attention: false,
        generation: 1,
        created_at: task.created_at.clone(),
        verified: None,
        states: Vec::new(),
    };
    let tasks: Vec<HistoryRow> = tasks.iter().map(entry).collect();
    TaskHistory { agent_name: "fix-login".into(), paging: paging(2, 1, 1), tasks }
}

/// Requests without the key, which is another one each time.
fn without_key(requests: &[String]) -> String {
    let text = requests.join("\n");
    let (before, key) = text.split_once("\"request_key\":\"").unwrap_or((&text, ""));
    format!("{before}[key]{}", key.split_once('"').map_or("", |(_, rest)| rest))
}

#[tokio::test]
async fn a_task_is_given_and_the_command_returns() {
    let rig = Rig::start().await;
    rig.answers("POST /agents/fix-login/tasks", &started()).await;
    let told = rig.run("tasks start fix-login 'Add a test' --when-busy queue --timeout 60");
    assert_snapshot!(format!("{told}{}", without_key(&rig.requests().await)));
}

#[tokio::test]
async fn a_task_that_is_waited_for_decides_how_the_command_ends() {
    for (state, outcome) in [("done", "tests pass"), ("failed", "no space left")] {
        let rig = Rig::start().await;
        rig.answers("POST /agents/fix-login/tasks", &started()).await;
        rig.answers("POST /wait", &done(Some(task(state, Some(outcome))))).await;
        rig.answers("GET /agents/fix-login/history", &history(&[task(state, Some(outcome))])).await;
        let agent = detail("fix-login", "idle");
        rig.answers("GET /agents/fix-login", &AgentShown { agent }).await;
        assert_snapshot!(format!("waited_{state}"), rig.run("tasks start fix-login 'Add a test' --wait 60"));
    }
}

#[tokio::test]
async fn a_task_that_is_done_is_not_waited_for_because_others_wait_behind_it() {
    let rig = Rig::start().await;
    rig.answers("POST /agents/fix-login/tasks", &started()).await;
    rig.answers("POST /wait", &AgentsWaited { timed_out: true, ..done(None) }).await;
    let next = TaskSummary { id: "0190e1a2-0000-7000-8000-000000000002".into(), ..task("working", None) };
    rig.answers("GET /agents/fix-login/history", &history(&[next, task("done", Some("tests pass"))])).await;
    rig.answers("GET /agents/fix-login", &AgentShown { agent: detail("fix-login", "busy") }).await;
    assert_snapshot!(rig.run("tasks start fix-login 'Add a test' --wait 60"));
}

#[tokio::test]
async fn a_task_that_takes_longer_than_it_is_waited_for_is_still_at_it() {
    let rig = Rig::start().await;
    rig.answers("POST /agents/fix-login/tasks", &started()).await;
    rig.answers("POST /wait", &AgentsWaited { timed_out: true, ..done(None) }).await;
    rig.answers("GET /agents/fix-login/history", &history(&[task("working", None)])).await;
    rig.answers("GET /agents/fix-login", &AgentShown { agent: detail("fix-login", "busy") }).await;
    assert_snapshot!(rig.run("tasks start fix-login 'Add a test' --wait 1"));
}

#[tokio::test]
async fn canceling_says_how_far_it_had_to_go() {
    let rig = Rig::start().await;
    let canceled = CanceledTask {
        task: Some(task("canceled", Some("it was interrupted on request"))),
        agent_status: "idle".into(),
        agent_name: "fix-login".into(),
        message: "the task of agent 'fix-login' is canceled".into(),
        reached: "interrupt".into(),
    };
    rig.answers("DELETE /agents/fix-login/tasks", &canceled).await;
    let told = rig.run("tasks cancel fix-login --all");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

#[tokio::test]
async fn waiting_tells_how_the_tasks_ended_and_when_the_time_is_over() {
    let rig = Rig::start().await;
    rig.answers("POST /wait", &done(Some(task("done", None)))).await;
    let told =
        rig.run("tasks wait fix-login --timeout 60") + &rig.run("--json tasks wait fix-login --timeout 60");
    assert_snapshot!(told);
    let late = Rig::start().await;
    late.answers("POST /wait", &AgentsWaited { timed_out: true, ..done(None) }).await;
    let told =
        late.run("tasks wait fix-login --timeout 0") + &late.run("--json tasks wait fix-login --timeout 0");
    assert_snapshot!("waiting_too_long", told);
}

#[tokio::test]
async fn waiting_names_agents_with_questions_and_agents_still_at_work() {
    let rig = Rig::start().await;
    let asking = AgentRow {
        attention: "needs_input".into(),
        reason: "ended with a question: Which port?".into(),
        last_task: Some(task("done", Some("Which port?"))),
        ..row("asker", "idle")
    };
    let busy = AgentRow { last_task: Some(task("done", None)), ..row("fix-login", "busy") };
    let changed = [asking, busy].map(|agent| ChangedAgent { agent, previous_status: None }).into();
    rig.answers("POST /wait", &AgentsWaited { changed, cursor: "9".into(), timed_out: true }).await;
    assert_snapshot!(rig.run("tasks wait asker fix-login --timeout 0"));
}

#[tokio::test]
async fn waiting_for_all_agents_leaves_out_those_that_were_deleted_before() {
    let rig = Rig::start().await;
    let rows = [row("fix-login", "deleted"), row("calm-heron", "idle")];
    let changed = rows.map(|agent| ChangedAgent { agent, previous_status: None }).into();
    rig.answers("POST /wait", &AgentsWaited { changed, cursor: "9".into(), timed_out: false }).await;
    let told = rig.run("tasks wait") + &rig.run("tasks wait fix-login calm-heron");
    assert_snapshot!(told);
}

#[tokio::test]
async fn a_task_that_ends_with_a_question_is_followed_by_how_to_answer() {
    let rig = Rig::start().await;
    rig.answers("POST /agents/fix-login/tasks", &started()).await;
    rig.answers("POST /wait", &done(None)).await;
    rig.answers("GET /agents/fix-login/history", &history(&[task("done", Some("Which port?"))])).await;
    let agent = AgentDetail {
        attention: "needs_input".into(),
        reason: "ended with a question: Which port?".into(),
        ..detail("fix-login", "idle")
    };
    rig.answers("GET /agents/fix-login", &AgentShown { agent }).await;
    assert_snapshot!(rig.run("tasks start fix-login 'Add a test' --wait 60"));
}

#[tokio::test]
async fn the_log_reads_from_top_to_bottom() {
    let rig = Rig::start().await;
    let entry = |id: &str, kind: &str, content: &str| LogRow {
        id: id.into(),
        time: "2026-11-16T06:00:00.000Z".into(),
        kind: kind.into(),
        content: content.into(),
    };
    let logs = vec![entry("0-1", "output", "done\u{1b}[31m\n"), entry("0-0", "input", "Add a test")];
    let log = LogPage { agent_name: "fix-login".into(), logs, paging: paging(2, 1, 1) };
    rig.answers("GET /agents/fix-login/log", &log).await;
    let told = rig.run("agents logs fix-login --page-size 2");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}
