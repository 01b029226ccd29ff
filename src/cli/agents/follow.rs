//! Follows one agent from status to status until it settles or the time is over.

use std::time::Duration;

use tokio::time::Instant;

use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::screen::Screen;
use crate::domain::agent::{AgentStatus, Until};
use crate::view::agent::{AgentRow, AgentsWaited};
use crate::view::request::{OneOf, WaitInput};

/// The longest wait per call; the server allows a little more.
const LONGEST_CALL: Duration = Duration::from_secs(40);
/// Precedes every change, so that the first response is the current state.
const BEGINNING: &str = "0";

#[derive(Debug)]
pub(super) enum Followed {
    /// It will not change by itself any more, or it is busy.
    Rests(Box<AgentRow>),
    StillMoving,
}

pub(super) async fn follow(
    client: &Client,
    name: &str,
    longest: Option<Duration>,
    screen: &Screen,
) -> Result<Followed, CliError> {
    let deadline = longest.map(|longest| Instant::now() + longest);
    let mut cursor = BEGINNING.to_owned();
    let mut last_status = String::new();
    while let Some(call) = next_call(deadline) {
        let waited = wait(client, name, cursor, call).await?;
        cursor = waited.cursor;
        let Some(row) = waited.changed.into_iter().map(|changed| changed.agent).next_back() else { continue };
        if row.status != last_status {
            screen.hint(&format!("{name}: {}, {}", row.status, row.reason));
            last_status.clone_from(&row.status);
        }
        if !AgentStatus::parse(&row.status).is_some_and(AgentStatus::is_moving) {
            return Ok(Followed::Rests(Box::new(row)));
        }
    }
    Ok(Followed::StillMoving)
}

/// How long the next call may wait; none once the time is over.
fn next_call(deadline: Option<Instant>) -> Option<Duration> {
    let left = deadline.map_or(LONGEST_CALL, |deadline| deadline.saturating_duration_since(Instant::now()));
    (!left.is_zero()).then(|| left.min(LONGEST_CALL))
}

async fn wait(
    client: &Client,
    name: &str,
    cursor: String,
    longest: Duration,
) -> Result<AgentsWaited, CliError> {
    let input = WaitInput {
        agent_names: vec![name.to_owned()],
        until: OneOf(Until::AnyChange),
        timeout_seconds: i64::try_from(longest.as_secs()).unwrap_or(1).max(1),
        cursor: Some(cursor),
    };
    client.post(&["wait"], &input).await?.read()
}
