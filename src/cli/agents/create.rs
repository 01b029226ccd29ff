//! `agents create`: creates an agent and, on a terminal, follows it until it is ready.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use uuid::Uuid;

use super::follow::{Followed, follow};
use crate::cli::client::{Body, Client};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::{Format, Screen};
use crate::cli::{text_file, wording};
use crate::domain::agent::AgentStatus;
use crate::domain::name::AgentName;
use crate::view::agent::AgentChanged;
use crate::view::request::CreateAgentInput;

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Project to work in (see 'fleet-mcp projects')
    #[arg(long, value_name = "P")]
    project: String,
    /// The agent's first task, in Markdown
    #[arg(long, value_name = "TEXT", required_unless_present = "spec_file", conflicts_with = "spec_file")]
    spec: Option<String>,
    /// File with the spec; - reads standard input
    #[arg(long, value_name = "FILE")]
    spec_file: Option<PathBuf>,
    /// Name of the agent; generated if omitted
    #[arg(long, value_name = "N", value_parser = AgentName::parse)]
    name: Option<AgentName>,
    /// Role of the agent (see 'fleet-mcp roles'); the project's default if omitted
    #[arg(long, value_name = "R")]
    role: Option<String>,
    /// Pull request to work on; the branch starts from its head if the repository's remote offers it
    #[arg(long, value_name = "U")]
    pull_request_url: Option<String>,
    /// Wait until the agent is ready, at most this many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_wait")]
    wait: Option<u32>,
    /// Return at once, even on a terminal
    #[arg(long)]
    no_wait: bool,
}

/// How long the command follows the new agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FollowLimit {
    Not,
    AtMost(Duration),
    UntilReady,
}

pub(super) async fn run(client: &Client, args: CreateArgs, screen: &Screen) -> Result<Exit, CliError> {
    let follow_limit = follow_limit(&args, screen);
    let input = input(args)?;
    let made = client.post(&["agents"], &input).await?;
    let first = made.read::<AgentChanged>()?;
    let name = &first.agent.name;
    for warning in &first.warnings {
        screen.hint(&format!("note: {warning}"));
    }
    let followed = match follow_limit {
        FollowLimit::Not => {
            return print_result(screen, &made, |agent| wording::for_operators(&agent.message));
        }
        FollowLimit::AtMost(longest) => follow(client, name, Some(longest), screen).await?,
        FollowLimit::UntilReady => follow(client, name, None, screen).await?,
    };
    // The same key returns the same agent: the first response, with the current status.
    let now = client.post(&["agents"], &input).await?;
    match followed {
        Followed::Rests(row) if !AgentStatus::parse(&row.status).is_some_and(AgentStatus::is_ready) => {
            Err(CliError::NotReady { name: row.name, status: row.status, reason: row.reason })
        }
        Followed::Rests(row) => {
            if let Some(note) = &row.start_note {
                screen.hint(&format!("note: {note}"));
            }
            print_result(screen, &now, |_| format!("agent '{name}' is ready"))
        }
        Followed::StillMoving => print_result(screen, &now, |_| format!("agent '{name}' is not ready yet")),
    }
}

fn follow_limit(args: &CreateArgs, screen: &Screen) -> FollowLimit {
    match args.wait {
        Some(0) => FollowLimit::Not,
        Some(seconds) => FollowLimit::AtMost(Duration::from_secs(seconds.into())),
        None if screen.is_terminal && screen.format == Format::People && !args.no_wait => {
            FollowLimit::UntilReady
        }
        None => FollowLimit::Not,
    }
}

fn input(args: CreateArgs) -> Result<CreateAgentInput, CliError> {
    let spec = match (args.spec, args.spec_file) {
        (Some(spec), _) => spec,
        (None, Some(file)) => text_file::read(&file)?,
        (None, None) => return Err(CliError::usage("no spec is given", "Add --spec or --spec-file.")),
    };
    Ok(CreateAgentInput {
        project: args.project,
        spec,
        name: args.name.map(|name| name.to_string()),
        role: args.role,
        pull_request_url: args.pull_request_url,
        request_key: Some(Uuid::new_v4().to_string()),
        wait_seconds: 0,
    })
}

fn print_result(
    screen: &Screen,
    body: &Body,
    message: impl FnOnce(&AgentChanged) -> String,
) -> Result<Exit, CliError> {
    screen.answer(body, |changed: &AgentChanged| {
        let name = &changed.agent.name;
        screen.line(&format!("{} ({})", message(changed), changed.agent.status))?;
        screen.hint(&format!("fleet-mcp agents show {name} shows its current work"));
        screen.hint(&format!("fleet-mcp agents history {name} shows its tasks and reports"));
        Ok(())
    })?;
    Ok(Exit::Ok)
}
