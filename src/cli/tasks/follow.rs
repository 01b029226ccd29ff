//! Waits for agents to end their tasks, call by call, as long as patience lasts.

use std::time::Duration;

use tokio::time::Instant;

use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::screen::Screen;
use crate::view::agent::{AgentRow, AgentsWaited};
use crate::view::request::WaitInput;

/// One call waits at most so long; the server allows a little more.
const LONGEST_CALL: Duration = Duration::from_secs(40);
/// Every change there ever was comes after it, so that the first answer is how things stand.
const BEGINNING: &str = "0";

/// The agents once all have ended their tasks; none when patience ended first.
pub(super) async fn until_done(
    client: &Client,
    names: &[String],
    longest: Option<Duration>,
    screen: &Screen,
) -> Result<Option<Vec<AgentRow>>, CliError> {
    let deadline = longest.map(|longest| Instant::now() + longest);
    loop {
        let left = deadline.map_or(LONGEST_CALL, |at| at.saturating_duration_since(Instant::now()));
        let waited = wait(client, names, left.min(LONGEST_CALL)).await?;
        let rows: Vec<AgentRow> = waited.changed.into_iter().map(|changed| changed.agent).collect();
        if !waited.timed_out {
            return Ok(Some(rows));
        }
        for row in rows.iter().filter(|row| row.status == "busy") {
            screen.hint(&format!("{}: {}, {}", row.name, row.status, row.reason));
        }
        if deadline.is_some_and(|at| Instant::now() >= at) {
            return Ok(None);
        }
    }
}

async fn wait(client: &Client, names: &[String], longest: Duration) -> Result<AgentsWaited, CliError> {
    let input = WaitInput {
        agent_names: names.to_vec(),
        until: "done".to_owned(),
        timeout_seconds: i64::try_from(longest.as_secs()).unwrap_or(1).max(1),
        cursor: Some(BEGINNING.to_owned()),
    };
    client.post(&["wait"], &input).await?.read()
}
