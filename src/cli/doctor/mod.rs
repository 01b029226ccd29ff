//! `doctor`: checks this machine first, then adds the server's own findings.

mod local;

use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::{Format, Screen};
use super::table::{Column, Table, column, text, toned};
use super::tone::Tone;
use crate::view::doctor::{CheckRow, DoctorReport};
use crate::view::request::NoInput;

const COLUMNS: &[Column] = &[column(""), column("CHECK"), column("FINDING")];

pub(super) async fn run(globals: &Globals, screen: &Screen) -> Result<Exit, CliError> {
    let mut checks = local::checks(globals).await;
    match ask(globals).await {
        Ok(report) => {
            // The server's finding counts: it may have another PATH.
            checks.retain(|ours| report.checks.iter().all(|theirs| theirs.name != ours.name));
            checks.extend(report.checks);
        }
        // The missing server is already among the findings.
        Err(CliError::NoServer) if checks.iter().any(|check| check.name == local::SERVER && !check.ok) => {}
        Err(error) => checks.push(no_answer(&error)),
    }
    let report = DoctorReport { ok: checks.iter().all(|check| check.ok), checks };
    match screen.format {
        Format::Json => screen.json(&report)?,
        Format::People => show(&report, screen)?,
    }
    Ok(if report.ok { Exit::Ok } else { Exit::Failed })
}

/// A server that does not answer is a finding as well.
fn no_answer(error: &CliError) -> CheckRow {
    CheckRow {
        name: "answer".to_owned(),
        ok: false,
        finding: error.message(),
        remedy: Some(error.next_action()),
    }
}

async fn ask(globals: &Globals) -> Result<DoctorReport, CliError> {
    Client::connect(globals)?.get(&["doctor"], &NoInput {}).await?.read()
}

/// Remedies are printed below the table: users copy them, so they are never cut.
fn show(report: &DoctorReport, screen: &Screen) -> Result<(), CliError> {
    let mut table = Table::new(COLUMNS);
    for check in &report.checks {
        let mark = if check.ok { "ok" } else { "!!" };
        table.row([toned(Some(Tone::of_check(check.ok)), mark), text(&check.name), text(&check.finding)]);
    }
    screen.table(&table)?;
    for check in report.checks.iter().filter(|check| !check.ok) {
        let remedy = check.remedy.as_deref().unwrap_or("Ask the operator of the server.");
        screen.hint(&format!("{}: {}\n  next: {remedy}", check.name, check.finding));
    }
    Ok(())
}
