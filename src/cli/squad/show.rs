//! Renders squads: a table of members, then the full output of each.

use chrono::Utc;

use crate::cli::age::relative;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::Screen;
use crate::cli::table::{Column, Table, column, column_from, text};
use crate::domain::run::RunStream;
use crate::view::request::{NoInput, OneOf, SquadStatusInput};
use crate::view::squad::{SquadMember, SquadRoles, SquadStatus};

const MEMBERS: &[Column] = &[
    column("MEMBER"),
    column("ROLE"),
    column("STATUS"),
    column_from(90, "STDOUT"),
    column_from(90, "STDERR"),
    column_from(130, "CHAT"),
    column_from(150, "CWD"),
];
const ROLES: &[Column] = &[column("ROLE"), column("NAME"), column("DESCRIPTION")];
const PAGE: i64 = 1_000_000;

pub(super) fn is_ended(status: &str) -> bool {
    !matches!(status, "waiting" | "running")
}

pub(super) async fn roles(client: &Client, screen: &Screen) -> Result<Exit, CliError> {
    let body = client.get(&["squads", "roles"], &NoInput {}).await?;
    screen.answer(&body, |found: &SquadRoles| {
        let mut table = Table::new(ROLES);
        for role in &found.roles {
            table.row([text(&role.id), text(&role.name), text(&role.description)]);
        }
        screen.table(&table)?;
        for problem in &found.problems {
            screen.hint(&format!("ignored: {problem}"));
        }
        screen.hint("fleet-mcp squad run ROLE=TASK … runs members of these roles");
        Ok(())
    })?;
    Ok(Exit::Ok)
}

/// The members and all their outputs.
pub(super) async fn members(
    client: &Client,
    squad: &str,
    members: &[SquadMember],
    screen: &Screen,
) -> Result<(), CliError> {
    screen.table(&table(members))?;
    for member in members {
        let reason = member.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        screen.hint(&format!("--- {} ({}): {}{reason}", member.role_id, member.member_id, member.status));
        if let Some(at) = &member.output_removed_at {
            screen.hint(&format!("the output was removed {}", relative(at, Utc::now())));
            continue;
        }
        screen.line(&whole(client, squad, member, RunStream::Stdout).await?)?;
        let stderr = whole(client, squad, member, RunStream::Stderr).await?;
        if !stderr.trim().is_empty() {
            screen.hint(&format!("--- {} stderr", member.role_id));
            screen.line(&stderr)?;
        }
    }
    Ok(())
}

pub(super) fn table(members: &[SquadMember]) -> Table {
    let mut table = Table::new(MEMBERS);
    for member in members {
        table.row([
            text(&member.member_id),
            text(&member.role_id),
            text(&member.status),
            text(member.stdout_bytes.to_string()),
            text(member.stderr_bytes.to_string()),
            text(member.chat_id.as_deref().unwrap_or_default()),
            text(&member.cwd),
        ]);
    }
    table
}

/// The output in the response, and the rest page by page.
async fn whole(
    client: &Client,
    squad: &str,
    member: &SquadMember,
    stream: RunStream,
) -> Result<String, CliError> {
    let (shown, n_bytes) = match stream {
        RunStream::Stdout => (&member.raw_stdout, member.stdout_bytes),
        RunStream::Stderr => (&member.raw_stderr, member.stderr_bytes),
    };
    if !member.truncated || shown.len() as i64 >= n_bytes {
        return Ok(shown.trim_end_matches('\n').to_owned());
    }
    let mut all = String::new();
    let mut next = Some(0);
    while let Some(offset) = next {
        let page = page(client, (squad, &member.member_id), stream, offset).await?;
        all.push_str(page.text.as_deref().unwrap_or_default());
        next = page.next_offset.filter(|next| *next > offset);
    }
    Ok(all.trim_end_matches('\n').to_owned())
}

async fn page(
    client: &Client,
    (squad, member): (&str, &str),
    stream: RunStream,
    offset: i64,
) -> Result<SquadStatus, CliError> {
    let question = SquadStatusInput {
        squad_id: Some(squad.to_owned()),
        member_id: Some(member.to_owned()),
        stream: Some(OneOf(stream)),
        offset: Some(offset),
        limit: Some(PAGE),
        wait_seconds: 0,
    };
    client.get(&["squads"], &question).await?.read()
}
