//! `status`: an overview of the fleet.

use chrono::Utc;

use super::age::relative;
use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::fields::{Field, field, optional, render, toned};
use super::globals::Globals;
use super::screen::Screen;
use super::table::{Column, Table, column, column_from, text};
use super::tone::Tone;
use super::{usage, wording};
use crate::view::fleet::{CoderHealth, FleetStatus};
use crate::view::request::NoInput;

const ATTENTION: &[Column] =
    &[column("AGENT"), column("ATTENTION"), column_from(80, "REASON"), column("WHAT TO DO")];

pub(super) async fn run(globals: &Globals, screen: &Screen) -> Result<Exit, CliError> {
    let body = Client::connect(globals)?.get(&["status"], &NoInput {}).await?;
    screen.answer(&body, |fleet: &FleetStatus| {
        screen.rendered(&render(&overview(fleet)))?;
        if fleet.attention.is_empty() {
            screen.hint("fleet-mcp agents list shows all agents");
            return Ok(());
        }
        let mut table = Table::new(ATTENTION);
        for row in &fleet.attention {
            let advice = wording::for_operators(&row.next_action);
            table.row([text(&row.agent), text(&row.attention), text(&row.reason), text(advice)]);
        }
        screen.line("")?;
        screen.table(&table)?;
        screen.hint("fleet-mcp agents show AGENT shows details of one agent");
        Ok(())
    })?;
    Ok(Exit::Ok)
}

fn overview(fleet: &FleetStatus) -> Vec<Field> {
    let now = Utc::now();
    let counts: Vec<String> = fleet.counts.iter().map(|(status, n)| format!("{n} {status}")).collect();
    let capacity = &fleet.capacity;
    vec![
        field("agents", if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }),
        field(
            "builds",
            format!("{} running, {} free, {} waiting", capacity.used, capacity.free, capacity.queued),
        ),
        toned("coder", Some(Tone::of_check(fleet.coder.reachable)), coder(&fleet.coder)),
        field("spent today", usage::spend(&fleet.spend_today)),
        optional("polled", fleet.observed_at.as_deref().map(|at| relative(at, now)).as_deref()),
    ]
}

fn coder(coder: &CoderHealth) -> String {
    let version = coder.version.as_deref().unwrap_or("of unknown version");
    let last = coder.last_ok_at.as_deref().map_or("never".to_owned(), |at| relative(at, Utc::now()));
    match (&coder.error, coder.reachable) {
        (_, true) => format!("{version} responds"),
        (Some(error), false) => format!("unusable, last good response {last}: {error}"),
        (None, false) => "not polled yet".to_owned(),
    }
}
