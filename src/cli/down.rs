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

/// The server gives its own steps 25 s to finish.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) async fn run(globals: &Globals, screen: &Screen) -> Result<Exit, CliError> {
    let asked = match Client::connect(globals) {
        Ok(client) => client.post(&["shutdown"], &json!({})).await.map(|_| ()),
        Err(error) => Err(error),
    };
    match (asked, &globals.url) {
        (Err(CliError::NoServer), _) => tell(screen, Outcome::NothingRuns),
        (Err(error), _) => Err(error),
        (Ok(()), Some(_)) => tell(screen, Outcome::Asked),
        (Ok(()), None) => {
            until_gone(&globals.require_data_directory()?).await?;
            tell(screen, Outcome::Stopped)
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    NothingRuns,
    /// A server elsewhere, whose end we cannot see.
    Asked,
    Stopped,
}

fn tell(screen: &Screen, outcome: Outcome) -> Result<Exit, CliError> {
    let message = match outcome {
        Outcome::NothingRuns => "nothing runs",
        Outcome::Asked => "the server was asked to stop",
        Outcome::Stopped => "the server has stopped; agents go on",
    };
    match screen.format {
        Format::People => screen.line(message)?,
        Format::Json => screen.line(&json!({ "message": message }).to_string())?,
    }
    Ok(Exit::Ok)
}

/// A clean stop removes the file; another server in its place means the old one has gone too.
async fn until_gone(directory: &Path) -> Result<(), CliError> {
    let first = ServerFile::read(directory)?;
    let gone = async {
        while first.is_some() && ServerFile::read(directory).is_ok_and(|now| now == first) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let still_runs = CliError::StillRuns { seconds: PATIENCE.as_secs() };
    tokio::time::timeout(PATIENCE, gone).await.map_err(|_| still_runs)
}
