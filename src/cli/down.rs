//! `down`: asks the server to stop and waits until it has.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::{Format, Screen};
use super::server_file::ServerFile;
use crate::domain::environment::DIRECTORY_VARIABLE;
use crate::domain::name::AgentName;
use crate::process::{Marked, is_running, marked};

/// The server gives its own steps 25 s to finish, and an embedded Coder's agents ten more.
const STOP_LIMIT: Duration = Duration::from_secs(40);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Exists while an embedded Coder serves from this data directory.
const EMBEDDED_FILE: &str = "coder.json";

pub(super) async fn run(globals: &Globals, screen: &Screen) -> Result<Exit, CliError> {
    let coder = globals.data_directory().and_then(|directory| EmbeddedCoder::of(&directory));
    let asked = match Client::connect(globals) {
        Ok(client) => client.post(&["shutdown"], &json!({})).await.map(|_| ()),
        Err(error) => Err(error),
    };
    match (asked, &globals.url) {
        (Err(CliError::NoServer), _) => print_result(screen, &without_server(globals, coder)?),
        (Ok(()), Some(_)) => print_result(screen, &Outcome::Asked),
        // A stopping server may not manage to send its response.
        (Ok(()) | Err(CliError::Cut { .. }), None) => {
            until_gone(&globals.require_data_directory()?).await?;
            print_result(screen, &coder.map_or(Outcome::Stopped, |_| Outcome::StoppedWithAgents))
        }
        (Err(error), _) => Err(error),
    }
}

/// The embedded Coder's own description, published while it serves.
#[derive(Debug, Clone, Copy, Deserialize)]
struct EmbeddedCoder {
    pid: u32,
}

impl EmbeddedCoder {
    fn of(directory: &Path) -> Option<Self> {
        let text = std::fs::read(directory.join(EMBEDDED_FILE)).ok()?;
        let coder: Self = serde_json::from_slice(&text).ok()?;
        is_running(coder.pid).then_some(coder)
    }
}

/// The situation without a running server.
fn without_server(globals: &Globals, coder: Option<EmbeddedCoder>) -> Result<Outcome, CliError> {
    if let Some(coder) = coder {
        return Ok(Outcome::OnlyCoder(coder));
    }
    let left = globals.data_directory().map(|directory| agents_below(&directory)).transpose()?;
    Ok(left.filter(|left| !left.is_empty()).map_or(Outcome::NothingRuns, Outcome::OnlyAgents))
}

/// The names of agents of this data directory with running processes. A killed server leaves them running.
fn agents_below(directory: &Path) -> Result<BTreeSet<String>, CliError> {
    let root = directory.join("workspaces");
    let unreadable = |source| CliError::File { path: "/proc".into(), source };
    let Marked { values, unread } = marked(DIRECTORY_VARIABLE).map_err(unreadable)?;
    // If some were found they are reported; without any, an incomplete look must not claim that none runs.
    if let Some(source) = unread.filter(|_| values.is_empty()) {
        return Err(unreadable(source));
    }
    let names = values.iter().filter_map(|value| AgentName::of_directory(&root, value));
    Ok(names.map(|name| name.to_string()).collect())
}

#[derive(Debug)]
enum Outcome {
    NothingRuns,
    /// Their server was killed and they continue, at the user's expense.
    OnlyAgents(BTreeSet<String>),
    /// `local-coder` runs without a server and cannot be stopped by this command.
    OnlyCoder(EmbeddedCoder),
    /// A remote server, whose end cannot be observed.
    Asked,
    Stopped,
    /// Agents of an embedded Coder run on this machine and stop with it.
    StoppedWithAgents,
}

fn print_result(screen: &Screen, outcome: &Outcome) -> Result<Exit, CliError> {
    let message = match outcome {
        Outcome::NothingRuns => "no server runs for this data directory".to_owned(),
        Outcome::OnlyCoder(EmbeddedCoder { pid }) => format!(
            "no server runs for this data directory, but 'fleet-mcp local-coder' does; stop it with 'kill {pid}'"
        ),
        Outcome::OnlyAgents(names) => format!(
            "no server runs for this data directory, but agents of a killed server still run ({}); run \
            'fleet-mcp up' to take them over, then 'fleet-mcp down'",
            names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        ),
        Outcome::Asked => "the server was asked to stop".to_owned(),
        Outcome::Stopped => "the server has stopped; its agents keep running".to_owned(),
        Outcome::StoppedWithAgents => {
            "the server and its agents have stopped; the next 'fleet-mcp up' starts them again".to_owned()
        }
    };
    match screen.format {
        Format::People => screen.line(&message)?,
        Format::Json => screen.json(&json!({ "message": message }))?,
    }
    Ok(match outcome {
        Outcome::OnlyAgents(_) => Exit::Failed,
        Outcome::NothingRuns | Outcome::OnlyCoder(_) | Outcome::Asked => Exit::Ok,
        Outcome::Stopped | Outcome::StoppedWithAgents => Exit::Ok,
    })
}

/// A clean stop removes the file; another server's file in its place means that the old server has stopped too.
async fn until_gone(directory: &Path) -> Result<(), CliError> {
    let Some(asked) = ServerFile::read(directory)? else { return Ok(()) };
    let still_there = || ServerFile::read(directory).is_ok_and(|now| now.as_ref() == Some(&asked));
    let gone = async {
        while still_there() && asked.is_alive() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let still_runs = CliError::StillRuns { seconds: STOP_LIMIT.as_secs() };
    tokio::time::timeout(STOP_LIMIT, gone).await.map_err(|_| still_runs)
}
