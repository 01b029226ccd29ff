//! `operations`: lists running operations and cancels them.

use chrono::Utc;
use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

use super::age::relative;
use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::paging::{EntryNoun, PageArgs, position};
use super::screen::Screen;
use super::table::{Column, Table, column, column_from, text, toned};
use super::tone::Tone;
use super::wording;
use crate::domain::name::AgentName;
use crate::view::operation::{OperationCanceled, OperationList, OperationRow};
use crate::view::request::{ListOperationsInput, MAX_WAIT_SECONDS};

const OPERATIONS: EntryNoun = EntryNoun { one: "operation", many: "operations" };
const COLUMNS: &[Column] = &[
    column("ID"),
    column("AGENT"),
    column("KIND"),
    column("STATE"),
    column_from(90, "STEP"),
    column_from(60, "SINCE"),
    column_from(100, "BY"),
    column_from(120, "MESSAGE"),
];

#[derive(Debug, Subcommand)]
pub enum OperationsCommand {
    /// List running creates, starts, stops, restarts and deletes, newest first
    #[command(after_help = "Example:\n  fleet-mcp operations list --all --agent fix-login")]
    List(ListArgs),
    /// Cancel a running operation; the workspace of a canceled create is deleted
    #[command(
        after_help = "Example:\n  fleet-mcp operations cancel 0190e1a2-0000-7000-8000-000000000001 --wait 20"
    )]
    Cancel(CancelArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only operations of this agent
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse)]
    agent: Option<AgentName>,
    /// Also operations that have ended
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The operation's id, as 'operations list' shows it
    #[arg(value_parser = operation_id)]
    id: Uuid,
    /// Wait until it has ended, at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..=MAX_WAIT_SECONDS))]
    wait: i64,
}

pub(super) async fn run(
    globals: &Globals,
    command: OperationsCommand,
    screen: &Screen,
) -> Result<Exit, CliError> {
    let client = Client::connect(globals)?;
    match command {
        OperationsCommand::List(args) => list(&client, args, screen).await?,
        OperationsCommand::Cancel(args) => cancel(&client, &args, screen).await?,
    }
    Ok(Exit::Ok)
}

async fn list(client: &Client, args: ListArgs, screen: &Screen) -> Result<(), CliError> {
    let PageArgs { page, page_size } = args.page;
    let agent_filter = args.agent.map(|name| name.to_string());
    let query = ListOperationsInput { agent_filter, include_ended: args.all, page, page_size };
    let body = client.get(&["operations"], &query).await?;
    screen.answer(&body, |list: &OperationList| {
        let mut table = Table::new(COLUMNS);
        list.operations.iter().for_each(|operation| table.row(row(operation)));
        screen.table(&table)?;
        screen.hint(&position(&list.paging, OPERATIONS));
        screen.hint("fleet-mcp operations cancel ID cancels one");
        Ok(())
    })
}

async fn cancel(client: &Client, args: &CancelArgs, screen: &Screen) -> Result<(), CliError> {
    let id = args.id.to_string();
    let body = client.post(&["operations", &id, "cancel"], &json!({ "wait_seconds": args.wait })).await?;
    screen.answer(&body, |canceled: &OperationCanceled| {
        screen.line(&wording::for_operators(&canceled.message))?;
        let name = &canceled.operation.agent_name;
        screen.hint(&format!("fleet-mcp operations list --all --agent {name} shows how it ended"));
        Ok(())
    })
}

fn operation_id(text: &str) -> Result<Uuid, &'static str> {
    text.parse().map_err(|_| "not an id of an operation; 'fleet-mcp operations list' shows them")
}

fn row(operation: &OperationRow) -> [comfy_table::Cell; 8] {
    let tone = match operation.state.as_str() {
        "failed" => Some(Tone::Bad),
        "done" | "canceled" => Some(Tone::Faint),
        _ => None,
    };
    [
        text(&operation.id),
        text(&operation.agent_name),
        text(&operation.kind),
        toned(tone, &operation.state),
        text(&operation.step),
        text(relative(&operation.created_at, Utc::now())),
        text(&operation.requested_by),
        text(operation.message.as_deref().unwrap_or_default()),
    ]
}
