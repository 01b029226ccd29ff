//! `token`: creates, lists and revokes access tokens.

use chrono::Utc;
use clap::{Args, Subcommand};
use uuid::Uuid;

use super::age::{is_past, lifetime, relative};
use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::Screen;
use super::table::{Column, Table, column, column_from, text, toned};
use super::tone::Tone;
use super::word::one_of;
use crate::domain::token::TokenKind;
use crate::view::request::{CreateTokenInput, NoInput, OneOf};
use crate::view::token::{TokenCreated, TokenList, TokenRevoked, TokenRow};

const COLUMNS: &[Column] = &[
    column("ID"),
    column("NAME"),
    column("KIND"),
    column_from(100, "ROLE"),
    column_from(80, "SCOPE"),
    column_from(60, "CREATED"),
    column_from(60, "STATE"),
];

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token; its text is shown only once
    #[command(
        after_help = "Example:\n  fleet-mcp token create --kind manager --name ci --project setup --expires 8h"
    )]
    Create(CreateArgs),
    /// List tokens, without their texts
    #[command(after_help = "Example:\n  fleet-mcp token list")]
    List,
    /// Revoke a token and the tokens created with it
    #[command(after_help = "Example:\n  fleet-mcp token revoke 0190e1a2-0000-7000-8000-000000000001")]
    Revoke {
        /// The token's id, as 'token list' shows it
        #[arg(value_parser = token_id)]
        id: Uuid,
    },
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Kind of caller the token is for
    #[arg(long, value_parser = one_of::<TokenKind>())]
    kind: TokenKind,
    /// Name of the holder in the audit trail
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Role of the token; for an agent's token, it replaces the agent's role
    #[arg(long, value_name = "R")]
    role: Option<String>,
    /// The agent that an agent token belongs to; a token without it needs --role
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// A project the token may act on; repeatable, all projects if omitted
    #[arg(long = "project", value_name = "P")]
    projects: Vec<String>,
    /// Lifetime such as 90s, 15m, 8h or 30d; no expiry if omitted
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<i64>,
}

pub(super) async fn run(globals: &Globals, command: TokenCommand, screen: &Screen) -> Result<Exit, CliError> {
    let client = Client::connect(globals)?;
    match command {
        TokenCommand::Create(args) => create(&client, args, screen).await?,
        TokenCommand::List => list(&client, screen).await?,
        TokenCommand::Revoke { id } => revoke(&client, id, screen).await?,
    }
    Ok(Exit::Ok)
}

/// Only the token goes to standard output, so that a script can capture it.
async fn create(client: &Client, args: CreateArgs, screen: &Screen) -> Result<(), CliError> {
    let input = CreateTokenInput {
        kind: OneOf(args.kind),
        name: args.name,
        role: args.role,
        agent: args.agent,
        projects: (!args.projects.is_empty()).then_some(args.projects),
        expires_in_seconds: args.expires,
    };
    let body = client.post(&["tokens"], &input).await?;
    screen.answer(&body, |token: &TokenCreated| {
        screen.line(&token.token)?;
        let end = token
            .expires_at
            .as_deref()
            .map_or("never expires".to_owned(), |at| format!("expires {}", relative(at, Utc::now())));
        screen.hint(&format!("{} token {}, {end}; it is not shown again", token.kind, token.id));
        screen.hint("keep it in FLEET_TOKEN, never in an argument");
        Ok(())
    })
}

async fn list(client: &Client, screen: &Screen) -> Result<(), CliError> {
    let body = client.get(&["tokens"], &NoInput {}).await?;
    screen.answer(&body, |found: &TokenList| {
        let mut table = Table::new(COLUMNS);
        found.tokens.iter().for_each(|token| table.row(row(token)));
        screen.table(&table)?;
        screen.hint("fleet-mcp token revoke ID revokes one");
        Ok(())
    })
}

async fn revoke(client: &Client, id: Uuid, screen: &Screen) -> Result<(), CliError> {
    let body = client.delete(&["tokens", &id.to_string()], &NoInput {}).await?;
    screen.answer(&body, |revoked: &TokenRevoked| match revoked.revoked_count {
        0 => screen.line(&format!("token {id} was already revoked")),
        1 => screen.line(&format!("token {id} is revoked")),
        n => screen.line(&format!("token {id} is revoked, and {} created with it", n - 1)),
    })
}

fn token_id(text: &str) -> Result<Uuid, &'static str> {
    text.parse().map_err(|_| "not an id of a token; 'fleet-mcp token list' shows them")
}

fn row(token: &TokenRow) -> [comfy_table::Cell; 7] {
    let now = Utc::now();
    let projects = token.projects.as_ref().map(|projects| projects.join(", "));
    let (state, tone) = match (&token.revoked_at, &token.expires_at) {
        (Some(at), _) => (format!("revoked {}", relative(at, now)), Some(Tone::Faint)),
        (None, Some(at)) if is_past(at, now) => (format!("expired {}", relative(at, now)), Some(Tone::Faint)),
        (None, Some(at)) => (format!("expires {}", relative(at, now)), None),
        (None, None) => ("never expires".to_owned(), None),
    };
    [
        text(&token.id),
        text(&token.name),
        text(&token.kind),
        text(token.role.as_deref().unwrap_or_default()),
        text(token.agent.clone().or(projects).unwrap_or_default()),
        text(relative(&token.created_at, now)),
        toned(tone, state),
    ]
}
