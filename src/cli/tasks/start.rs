//! `tasks start`: starts a task and, on a terminal, follows it to its end.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use super::follow::{is_ended, until_ended};
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::{Format, Screen};
use crate::cli::word::one_of;
use crate::cli::{text_file, wording};
use crate::domain::agent::Attention;
use crate::domain::name::AgentName;
use crate::domain::task::WhenBusy;
use crate::view::agent::AgentShown;
use crate::view::history::HistoryRow;
use crate::view::request::NoInput;
use crate::view::task::StartedTask;

#[derive(Debug, Args)]
pub struct StartArgs {
    /// Name of the agent
    #[arg(value_name = "NAME", value_parser = AgentName::parse)]
    name: AgentName,
    /// Text of the task
    #[arg(value_name = "TASK", required_unless_present = "task_file", conflicts_with = "task_file")]
    task: Option<String>,
    /// File with the task; - reads standard input
    #[arg(long, value_name = "FILE")]
    task_file: Option<PathBuf>,
    /// Handling of the new task if the agent already has one
    #[arg(long, value_name = "W", default_value = "reject", value_parser = one_of::<WhenBusy>())]
    when_busy: WhenBusy,
    /// End the task after this many seconds of work
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<i64>,
    /// Wait until the task ends, at most this many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_wait")]
    wait: Option<u32>,
    /// Return at once, even on a terminal
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(client: &Client, args: StartArgs, screen: &Screen) -> Result<Exit, CliError> {
    let name = args.name.to_string();
    let longest = wait_limit(&args, screen);
    let body = client.post(&["agents", &name, "tasks"], &input(args)?).await?;
    let Some(longest) = longest else {
        screen.answer(&body, |started: &StartedTask| {
            screen.line(&format!("{} ({})", wording::for_operators(&started.message), started.task.state))?;
            screen.hint(&format!("fleet-mcp tasks wait {name} waits until it has ended"));
            Ok(())
        })?;
        return Ok(Exit::Ok);
    };
    let started: StartedTask = body.read()?;
    screen.hint(&wording::for_operators(&started.message));
    let task = until_ended(client, (&name, &started.task.id), longest, screen).await?;
    finished(client, &name, task.as_ref(), screen).await
}

/// None: do not wait at all.
fn wait_limit(args: &StartArgs, screen: &Screen) -> Option<Option<Duration>> {
    match args.wait {
        Some(0) => None,
        Some(seconds) => Some(Some(Duration::from_secs(seconds.into()))),
        None if screen.is_terminal && screen.format == Format::People && !args.no_wait => Some(None),
        None => None,
    }
}

/// Shows the result; a task that did not succeed is a failure of the command.
async fn finished(
    client: &Client,
    name: &str,
    task: Option<&HistoryRow>,
    screen: &Screen,
) -> Result<Exit, CliError> {
    let agent = client.get(&["agents", name], &NoInput {}).await?.read::<AgentShown>()?.agent;
    let ended = task.filter(|task| is_ended(&task.state));
    match (screen.format, ended) {
        (Format::Json, _) => screen.json(&json!({ "agent": agent, "task": task }))?,
        (Format::People, Some(task)) => {
            screen.line(&description(task))?;
            if agent.attention == Attention::NeedsInput.word() {
                screen.hint(&format!("'{name}' needs input: {}", agent.reason));
                screen.hint(&format!("fleet-mcp tasks start {name} ANSWER answers the question"));
            }
        }
        (Format::People, None) => {
            screen.line(&format!("agent '{name}' is still working on the task ({})", agent.status))?;
        }
    }
    Ok(match ended.map(|task| task.state.as_str()) {
        Some("done") => Exit::Ok,
        Some(_) => Exit::Failed,
        None => Exit::Unavailable,
    })
}

fn description(task: &HistoryRow) -> String {
    let outcome = task.outcome.as_ref().map(|outcome| format!(": {outcome}")).unwrap_or_default();
    format!("{}{outcome}", task.state)
}

fn input(args: StartArgs) -> Result<Value, CliError> {
    let task_description = match (args.task, args.task_file) {
        (Some(task), _) => task,
        (None, Some(file)) => text_file::read(&file)?,
        (None, None) => {
            return Err(CliError::usage("no task is given", "Add the text of the task, or --task-file."));
        }
    };
    let mut input = json!({
        "task_description": task_description,
        "when_busy": args.when_busy.word(),
        "request_key": Uuid::new_v4().to_string(),
    });
    if let Some(seconds) = args.timeout {
        input["timeout_seconds"] = json!(seconds);
    }
    Ok(input)
}
