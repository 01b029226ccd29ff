//! `squad run`: starts a squad and follows it to its end; an interrupted caller finds it again by its id.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::show;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::{Format, Screen};
use crate::cli::text_file;
use crate::view::request::{MAX_WAIT_SECONDS, SquadStatusInput};
use crate::view::squad::{SquadResult, SquadStatus};

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A member: its role and its task
    #[arg(value_name = "ROLE=TASK", required_unless_present = "file", conflicts_with = "file")]
    members: Vec<String>,
    /// File with the members as JSON, in the format of the MCP tool; - reads standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Directory inside the workspace for all members
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    cwd: Option<String>,
    /// Agent whose workspace the members use; the workspace for runs if omitted
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    agent: Option<String>,
    /// Chat to continue, for a single member of a stateful squad
    #[arg(long, value_name = "CHAT", conflicts_with = "file")]
    chat: Option<String>,
    /// Return at once
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(client: &Client, args: RunArgs, screen: &Screen) -> Result<Exit, CliError> {
    let no_wait = args.no_wait;
    let body = client.post(&["squads"], &input(&args)?).await?;
    let squad = body.read::<SquadResult>()?.squad_id;
    if no_wait {
        screen.answer(&body, |_: &SquadResult| {
            screen.line(&format!("squad {squad} is running"))?;
            screen.hint(&format!("fleet-mcp squad status {squad} shows its progress"));
            Ok(())
        })?;
        return Ok(Exit::Ok);
    }
    screen.hint(&format!(
        "squad {squad} is running; it continues if you leave (fleet-mcp squad status {squad})"
    ));
    until_done(client, &squad, screen).await
}

/// Waits for one member's end at a time until all have ended.
async fn until_done(client: &Client, squad: &str, screen: &Screen) -> Result<Exit, CliError> {
    let mut n_reported = 0;
    loop {
        let question = SquadStatusInput {
            squad_id: Some(squad.to_owned()),
            wait_seconds: MAX_WAIT_SECONDS,
            ..SquadStatusInput::default()
        };
        let body = client.get(&["squads"], &question).await?;
        let status: SquadStatus = body.read()?;
        let members = status.members.unwrap_or_default();
        let n_ended = members.iter().filter(|member| show::is_ended(&member.status)).count();
        if status.done == Some(true) {
            match screen.format {
                Format::Json => screen.answer(&body, |_: &SquadStatus| Ok(()))?,
                Format::People => show::members(client, squad, &members, screen).await?,
            }
            let is_well = members.iter().all(|member| member.status == "completed");
            return Ok(if is_well { Exit::Ok } else { Exit::Failed });
        }
        if n_ended > n_reported {
            n_reported = n_ended;
            screen.hint(&format!("{n_ended} of {} members have ended", members.len()));
        }
    }
}

/// Returns at once, so that the id is known before the end; without the caller's key a lost response is requested
/// again with a generated one.
fn input(args: &RunArgs) -> Result<Value, CliError> {
    let mut input = match &args.file {
        Some(file) => read_input(file)?,
        None => {
            let members: Result<Vec<_>, _> = args.members.iter().map(|text| member(text, args)).collect();
            Map::from_iter([("members".to_owned(), members?.into())])
        }
    };
    input.insert("async".to_owned(), true.into());
    input.entry("request_key").or_insert_with(|| Uuid::new_v4().to_string().into());
    Ok(input.into())
}

fn member(text: &str, args: &RunArgs) -> Result<Value, CliError> {
    let is_filled = |(role, task): &(&str, &str)| !role.trim().is_empty() && !task.trim().is_empty();
    let Some((role, task)) = text.split_once('=').filter(is_filled) else {
        let message = format!("'{text}' does not name a role and a task");
        return Err(CliError::usage(message, "Write each member as ROLE=TASK."));
    };
    let mut member = json!({ "roleId": role, "task": task });
    for (name, value) in [("cwd", &args.cwd), ("agent_name", &args.agent), ("chatId", &args.chat)] {
        if let Some(value) = value {
            member[name] = json!(value);
        }
    }
    Ok(member)
}

/// The tool's complete input, or a list of members.
fn read_input(file: &Path) -> Result<Map<String, Value>, CliError> {
    let text = text_file::read(file)?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(input)) => Ok(input),
        Ok(members) => Ok(Map::from_iter([("members".to_owned(), members)])),
        Err(error) => Err(CliError::usage(format!("the members are not JSON: {error}"), "Correct the file.")),
    }
}
