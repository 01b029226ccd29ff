//! `down`: asks the server to stop and waits until it has.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::{Format, Screen};
use super::server_file::ServerFile;

/// The server gives its own steps 25 s to finish, and an embedded Coder's agents ten more.
const PATIENCE: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// There while an embedded Coder serves from this data directory.
const EMBEDDED_FILE: &str = "coder.json";

pub(super) async fn run(globals: &Globals, screen: &Screen) -> Result<Exit, CliError> {
    let is_embedded =
        globals.data_directory().is_some_and(|directory| directory.join(EMBEDDED_FILE).exists());
    let asked = match Client::connect(globals) {
        Ok(client) => client.post(&["shutdown"], &json!({})).await.map(|_| ()),
        Err(error) => Err(error),
    };
    match (asked, &globals.url) {
        (Err(CliError::NoServer), _) => tell(screen, Outcome::NothingRuns),
        (Ok(()), Some(_)) => tell(screen, Outcome::Asked),
        // A server on its way out may not get its answer to us.
        (Ok(()) | Err(CliError::Cut { .. }), None) => {
            until_gone(&globals.require_data_directory()?).await?;
            tell(screen, if is_embedded { Outcome::StoppedWithAgents } else { Outcome::Stopped })
        }
        (Err(error), _) => Err(error),
    }
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    NothingRuns,
    /// A server elsewhere, whose end we cannot see.
    Asked,
    Stopped,
    /// Agents of an embedded Coder live on this machine and stop with it.
    StoppedWithAgents,
}

fn tell(screen: &Screen, outcome: Outcome) -> Result<Exit, CliError> {
    let message = match outcome {
        Outcome::NothingRuns => "nothing runs",
        Outcome::Asked => "the server was asked to stop",
        Outcome::Stopped => "the server has stopped; agents go on",
        Outcome::StoppedWithAgents => {
            "the server and its agents have stopped; the next 'fleet-mcp up' starts them again"
        }
    };
    match screen.format {
        Format::People => screen.line(message)?,
        Format::Json => screen.json(&json!({ "message": message }))?,
    }
    Ok(Exit::Ok)
}

/// A clean stop removes the file; another server's file in its place means the old one has gone too.
async fn until_gone(directory: &Path) -> Result<(), CliError> {
    let Some(asked) = ServerFile::read(directory)? else { return Ok(()) };
    let still_there = || ServerFile::read(directory).is_ok_and(|now| now.as_ref() == Some(&asked));
    let gone = async {
        while still_there() && asked.is_alive() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let still_runs = CliError::StillRuns { seconds: PATIENCE.as_secs() };
    tokio::time::timeout(PATIENCE, gone).await.map_err(|_| still_runs)
}
