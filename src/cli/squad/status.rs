//! `squad status`: one squad, one output, or everything that runs.

use clap::Args;

use super::show;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::{Format, Screen};
use crate::cli::table::{Column, Table, column, column_from, text};
use crate::cli::word::one_of;
use crate::domain::run::RunStream;
use crate::domain::squad::MemberStatus;
use crate::view::request::{OneOf, SquadStatusInput};
use crate::view::squad::{SquadStatus, SquadSummary};

const SQUADS: &[Column] = &[column("SQUAD"), column("STATE"), column("MEMBERS"), column_from(70, "STARTED")];
const AGENTS: &[Column] = &[column("AGENT"), column("ROLE"), column("TASK")];
const PENDING: &[Column] = &[column("WAITS FOR"), column("TASK"), column_from(70, "SINCE")];

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Id of a squad; if omitted: busy agents, queued tasks and your squads of the last 24 hours
    #[arg(value_name = "SQUAD")]
    squad: Option<String>,
    /// Only the output of this member
    #[arg(long, value_name = "MEMBER", requires = "squad")]
    member: Option<String>,
    /// Output stream of the member
    #[arg(long, value_name = "S", default_value = "stdout", value_parser = one_of::<RunStream>())]
    stream: RunStream,
    /// Offset to start from, in bytes
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: i64,
    /// Length to read, in bytes
    #[arg(long, value_name = "N", default_value_t = 16_000)]
    limit: i64,
    /// Wait until the next member ends, at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: i64,
}

pub(super) async fn run(client: &Client, args: StatusArgs, screen: &Screen) -> Result<Exit, CliError> {
    let squad = args.squad.clone();
    let body = client.get(&["squads"], &question(args)).await?;
    let status: SquadStatus = body.read()?;
    match (screen.format, squad) {
        (Format::Json, _) => screen.answer(&body, |_: &SquadStatus| Ok(()))?,
        (Format::People, Some(squad)) => one(client, &squad, &status, screen).await?,
        (Format::People, None) => overview(&status, screen)?,
    }
    Ok(Exit::Ok)
}

fn question(args: StatusArgs) -> SquadStatusInput {
    let is_output = args.member.is_some();
    SquadStatusInput {
        squad_id: args.squad,
        member_id: args.member,
        stream: is_output.then_some(OneOf(args.stream)),
        offset: is_output.then_some(args.offset),
        limit: is_output.then_some(args.limit),
        wait_seconds: args.wait,
    }
}

async fn one(client: &Client, squad: &str, status: &SquadStatus, screen: &Screen) -> Result<(), CliError> {
    if let Some(text) = &status.text {
        screen.line(text)?;
        if let Some(next) = status.next_offset {
            screen.hint(&format!(
                "{} bytes in total; --offset {next} continues",
                status.total_bytes.unwrap_or(0)
            ));
        }
        return Ok(());
    }
    let members = status.members.as_deref().unwrap_or_default();
    if status.done == Some(true) {
        return show::members(client, squad, members, screen).await;
    }
    screen.table(&show::table(members))?;
    screen.hint(&format!("fleet-mcp squad status {squad} --wait 45 waits for the next one to end"));
    Ok(())
}

fn overview(status: &SquadStatus, screen: &Screen) -> Result<(), CliError> {
    let mut squads = Table::new(SQUADS);
    for squad in status.squads.iter().flatten() {
        let state = if squad.done { "done" } else { "at work" };
        squads.row([text(&squad.squad_id), text(state), text(description(squad)), text(&squad.created_at)]);
    }
    let mut agents = Table::new(AGENTS);
    for agent in status.active_agents.iter().flatten() {
        let task = agent.current_task.as_deref().unwrap_or_default();
        agents.row([text(&agent.name), text(&agent.role), text(task)]);
    }
    let mut pending = Table::new(PENDING);
    for task in status.pending_tasks.iter().flatten() {
        pending.row([text(&task.agent_name), text(&task.message), text(&task.created_at)]);
    }
    for table in [squads, agents, pending].iter().filter(|table| !table.is_empty()) {
        screen.table(table)?;
    }
    screen.hint("fleet-mcp squad run ROLE=TASK … starts one; fleet-mcp squad status SQUAD shows one");
    Ok(())
}

fn description(squad: &SquadSummary) -> String {
    let count = |status: &str| squad.members.iter().filter(|member| member.status == status).count();
    let description = MemberStatus::ALL.iter().map(|status| (count(status.word()), status));
    let description = description.filter(|(n, _)| *n > 0).map(|(n, status)| format!("{n} {status}"));
    description.collect::<Vec<_>>().join(", ")
}
