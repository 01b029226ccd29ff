//! `audit`: who did what through which interface, newest first.

use chrono::Utc;
use clap::Args;

use super::age::relative;
use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::paging::{ENTRIES, PageArgs, position};
use super::screen::Screen;
use super::table::{Column, Table, column, column_from, text, toned};
use super::tone::Tone;
use crate::view::request::PageInput;
use crate::view::token::{AuditList, AuditRow};

const COLUMNS: &[Column] = &[
    column("WHEN"),
    column("CALLER"),
    column_from(80, "KIND"),
    column_from(70, "SURFACE"),
    column("ACTION"),
    column_from(50, "TARGET"),
    column("OUTCOME"),
];

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    page: PageArgs,
}

pub(super) async fn run(globals: &Globals, args: AuditArgs, screen: &Screen) -> Result<Exit, CliError> {
    let PageArgs { page, page_size } = args.page;
    let body = Client::connect(globals)?.get(&["audit"], &PageInput { page, page_size }).await?;
    screen.answer(&body, |list: &AuditList| {
        let mut table = Table::new(COLUMNS);
        list.entries.iter().for_each(|entry| table.row(row(entry)));
        screen.table(&table)?;
        screen.hint(&position(&list.paging, ENTRIES));
        Ok(())
    })?;
    Ok(Exit::Ok)
}

fn row(entry: &AuditRow) -> [comfy_table::Cell; 7] {
    let outcome =
        entry.code.as_ref().map_or(entry.outcome.clone(), |code| format!("{} {code}", entry.outcome));
    let tone = (entry.outcome != "allowed").then_some(Tone::Bad);
    [
        text(relative(&entry.at, Utc::now())),
        text(&entry.principal),
        text(&entry.principal_kind),
        text(&entry.surface),
        text(&entry.action),
        text(entry.target.as_deref().unwrap_or_default()),
        toned(tone, outcome),
    ]
}
