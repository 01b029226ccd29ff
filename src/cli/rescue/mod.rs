//! `rescue`: lists the unpushed work of deleted agents and restores it to a repository.

mod git;
mod restore;

use std::path::PathBuf;

use chrono::Utc;
use clap::{Args, Subcommand};

use super::age::relative;
use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::paging::{EntryNoun, PageArgs, position};
use super::screen::Screen;
use super::table::{Column, Table, column, column_from, text, toned};
use super::tone::Tone;
use crate::view::request::PageInput;
use crate::view::rescue::{RescueList, RescueRow};

const RESCUES: EntryNoun = EntryNoun { one: "rescue", many: "rescues" };
const COLUMNS: &[Column] = &[
    column("ID"),
    column("AGENT"),
    column_from(100, "PROJECT"),
    column_from(60, "DELETED"),
    column("STATE"),
    column_from(80, "BYTES"),
    column_from(90, "COMMIT"),
    column_from(110, "NOTE"),
];
const SHORT_COMMIT: usize = 10;

#[derive(Debug, Subcommand)]
pub enum RescueCommand {
    /// List the rescues of deleted agents' work, newest first
    #[command(after_help = "Example:\n  fleet-mcp rescue list")]
    List(ListArgs),
    /// Restore a deleted agent's work as a new branch
    #[command(after_help = "Example:\n  fleet-mcp rescue restore otter --into ~/src/app")]
    Restore(RestoreArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The rescue's id or its first characters, as 'rescue list' shows it, or the agent's name
    #[arg(value_name = "ID|AGENT")]
    id: String,
    /// A repository, or an empty or new directory; the current directory if omitted
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
}

pub(super) async fn run(
    globals: &Globals,
    command: RescueCommand,
    screen: &Screen,
) -> Result<Exit, CliError> {
    let client = Client::connect(globals)?;
    match command {
        RescueCommand::List(args) => list(&client, args.page, screen).await?,
        RescueCommand::Restore(args) => restore::run(&client, &args, screen).await?,
    }
    Ok(Exit::Ok)
}

async fn list(client: &Client, page: PageArgs, screen: &Screen) -> Result<(), CliError> {
    let PageArgs { page, page_size } = page;
    let body = client.get(&["rescues"], &PageInput { page, page_size }).await?;
    screen.answer(&body, |list: &RescueList| {
        let mut table = Table::new(COLUMNS);
        list.rescues.iter().for_each(|rescue| table.row(row(rescue)));
        screen.table(&table)?;
        screen.hint(&position(&list.paging, RESCUES));
        screen.hint("fleet-mcp rescue restore AGENT --into DIR restores one");
        Ok(())
    })
}

fn row(rescue: &RescueRow) -> [comfy_table::Cell; 8] {
    let tone = match rescue.state.as_str() {
        "failed" => Some(Tone::Bad),
        "nothing" => Some(Tone::Faint),
        _ => None,
    };
    let commit: String = rescue.commit.iter().flat_map(|id| id.chars()).take(SHORT_COMMIT).collect();
    [
        text(&rescue.id),
        text(&rescue.agent_name),
        text(&rescue.project),
        text(relative(&rescue.created_at, Utc::now())),
        toned(tone, &rescue.state),
        text(rescue.bytes.map(|bytes| bytes.to_string()).unwrap_or_default()),
        text(commit),
        text(rescue.note.as_deref().unwrap_or_default()),
    ]
}
