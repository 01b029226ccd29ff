//! Waits for agents to end their tasks, or for one task, in repeated calls until a time limit.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::screen::Screen;
use crate::domain::agent::{AgentStatus, Attention, Until};
use crate::domain::task::TaskState;
use crate::view::agent::{AgentRow, AgentsWaited, ChangedAgent};
use crate::view::history::{HistoryRow, TaskHistory};
use crate::view::request::{OneOf, WaitInput};

/// The longest wait per call; the server allows a little more.
const LONGEST_CALL: Duration = Duration::from_secs(40);
/// The end of one task causes no event while others are queued behind it, so it is polled this often.
const LOOK_UP: Duration = Duration::from_secs(2);
/// For an idle agent the server responds at once, even if its task has yet to begin.
const PAUSE: Duration = Duration::from_millis(200);
const PAGE_SIZE: u32 = 100;
/// Precedes every change, so that the first response is the current state.
const BEGINNING: &str = "0";

/// The agents once all have ended their tasks, or as they are at the time limit.
pub(super) async fn until_done(
    client: &Client,
    names: &[String],
    longest: Option<Duration>,
    screen: &Screen,
) -> Result<AgentsWaited, CliError> {
    let deadline = longest.map(|longest| Instant::now() + longest);
    loop {
        let left = deadline.map_or(LONGEST_CALL, |at| at.saturating_duration_since(Instant::now()));
        let waited = wait(client, names, left.min(LONGEST_CALL)).await?;
        if !waited.timed_out || deadline.is_some_and(|at| Instant::now() >= at) {
            return Ok(waited);
        }
        print_unsettled(&waited.changed, screen);
    }
}

/// The task once it has ended, or at the time limit; none if it is unknown.
pub(super) async fn until_ended(
    client: &Client,
    (name, task_id): (&str, &str),
    longest: Option<Duration>,
    screen: &Screen,
) -> Result<Option<HistoryRow>, CliError> {
    let begun = Instant::now();
    let mut told_at = begun;
    loop {
        let left = longest.map_or(LOOK_UP, |longest| longest.saturating_sub(begun.elapsed()));
        let waited = wait(client, &[name.to_owned()], left.min(LOOK_UP)).await?;
        let task = task_of(client, name, task_id).await?;
        let is_over = task.as_ref().is_none_or(|task| is_ended(&task.state));
        if is_over || longest.is_some_and(|longest| begun.elapsed() >= longest) {
            return Ok(task);
        }
        if told_at.elapsed() >= LONGEST_CALL {
            told_at = Instant::now();
            print_unsettled(&waited.changed, screen);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

pub(super) fn is_ended(state: &str) -> bool {
    TaskState::parse(state).is_some_and(TaskState::is_ended)
}

async fn task_of(client: &Client, name: &str, task_id: &str) -> Result<Option<HistoryRow>, CliError> {
    for page in 1u32.. {
        let query = json!({ "kind": "task", "page": page, "page_size": PAGE_SIZE });
        let history: TaskHistory = client.get(&["agents", name, "history"], &query).await?.read()?;
        let has_more = history.paging.has_next_page;
        let found = history.tasks.into_iter().find(|task| task.id == task_id);
        if found.is_some() || !has_more {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Prints agents that work or need attention: the wait for them may never end by itself.
fn print_unsettled(agents: &[ChangedAgent], screen: &Screen) {
    let unsettled = agents.iter().filter(|changed| !is_settled(&changed.agent));
    unsettled.for_each(|changed| screen.hint(&condition(&changed.agent)));
}

/// Neither at work nor in need of attention.
pub(super) fn is_settled(agent: &AgentRow) -> bool {
    let rests = |status: AgentStatus| status != AgentStatus::Busy && !status.is_moving();
    agent.attention == Attention::None.word() && AgentStatus::parse(&agent.status).is_some_and(rests)
}

/// "otter: idle (needs_input), Which port?"
pub(super) fn condition(agent: &AgentRow) -> String {
    let AgentRow { name, status, reason, attention, .. } = agent;
    if attention == Attention::None.word() {
        return format!("{name}: {status}, {reason}");
    }
    format!("{name}: {status} ({attention}), {reason}")
}

async fn wait(client: &Client, names: &[String], longest: Duration) -> Result<AgentsWaited, CliError> {
    let input = WaitInput {
        agent_names: names.to_vec(),
        until: OneOf(Until::Done),
        timeout_seconds: i64::try_from(longest.as_secs()).unwrap_or(1).max(1),
        cursor: Some(BEGINNING.to_owned()),
    };
    client.post(&["wait"], &input).await?.read()
}
