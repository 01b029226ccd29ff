//! `agents list`: one row per agent.

use chrono::{DateTime, Utc};
use clap::Args;

use crate::cli::age::relative;
use crate::cli::client::{Body, Client};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::paging::{AGENTS, PageArgs, position};
use crate::cli::screen::Screen;
use crate::cli::table::{Column, Table, column, column_from, text, toned};
use crate::cli::tone::Tone;
use crate::cli::usage;
use crate::view::agent::{AgentList, AgentRow};
use crate::view::request::ListAgentsInput;

const COLUMNS: &[Column] = &[
    column("NAME"),
    column("STATUS"),
    column_from(80, "ROLE"),
    column_from(60, "PROJECT"),
    column("DOING"),
    column_from(100, "USED"),
    column_from(60, "SEEN"),
];

#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Only agents with this status, or a comma-separated list of statuses
    #[arg(long, value_name = "S")]
    pub(super) status: Option<String>,
    /// Only agents of this project
    #[arg(long, value_name = "P")]
    pub(super) project: Option<String>,
    /// Only agents with this role
    #[arg(long, value_name = "R")]
    pub(super) role: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    /// Keep running, and show the list again at every change
    #[arg(long)]
    pub(super) watch: bool,
}

pub(super) async fn run(client: &Client, args: ListArgs, screen: &Screen) -> Result<Exit, CliError> {
    let body = fetch(client, &args).await?;
    draw(&body, screen)?;
    Ok(Exit::Ok)
}

pub(super) async fn fetch(client: &Client, args: &ListArgs) -> Result<Body, CliError> {
    let query = ListAgentsInput {
        status_filter: args.status.clone(),
        project_filter: args.project.clone(),
        role_filter: args.role.clone(),
        page: args.page.page,
        page_size: args.page.page_size,
        include_runs: false,
    };
    client.get(&["agents"], &query).await
}

pub(super) fn draw(body: &Body, screen: &Screen) -> Result<(), CliError> {
    screen.answer(body, |list: &AgentList| {
        if list.agents.is_empty() {
            screen.hint("no agents; fleet-mcp agents create --project P --spec TEXT creates one");
            return Ok(());
        }
        screen.table(&table(list, Utc::now()))?;
        screen.hint(&format!("{}; fleet-mcp agents show NAME shows details", position(&list.paging, AGENTS)));
        Ok(())
    })
}

fn table(list: &AgentList, now: DateTime<Utc>) -> Table {
    let mut table = Table::new(COLUMNS);
    for agent in &list.agents {
        table.row([
            text(&agent.name),
            toned(tone(agent), status(agent)),
            text(&agent.role),
            text(&agent.project),
            text(agent.current_task.as_ref().unwrap_or(&agent.reason)),
            text(agent.usage.as_ref().map(usage::row).unwrap_or_default()),
            text(agent.observed_at.as_deref().map_or("never".to_owned(), |at| relative(at, now))),
        ]);
    }
    table
}

/// The status, with the reason if the agent needs attention.
fn status(agent: &AgentRow) -> String {
    match agent.attention.as_str() {
        "none" => agent.status.clone(),
        attention => format!("{} ({attention})", agent.status),
    }
}

fn tone(agent: &AgentRow) -> Option<Tone> {
    if agent.attention == "none" { Tone::of_status(&agent.status) } else { Some(Tone::Bad) }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
