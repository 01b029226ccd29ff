//! The HTTP transport: one manager token per client, reused while the server accepts it.

use std::path::Path;

use secrecy::SecretString;
use url::Url;

use super::entry::Server;
use super::file::ClientFile;
use super::{McpClient, entry_of};
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::globals::Globals;
use crate::domain::token::TokenKind;
use crate::view::request::{CreateTokenInput, NoInput, OneOf};
use crate::view::token::TokenCreated;

/// The prefix of our tokens, and the number of hexadecimal digits after it.
const TOKEN_PREFIX: &str = "fleet_";
const TOKEN_DIGITS: usize = 64;

/// The running server, with the token from the file if it is valid, else with a new one.
pub(super) async fn server(globals: &Globals, client: &McpClient, path: &Path) -> Result<Server, CliError> {
    let operator = Client::connect(globals)?;
    let url = operator.mcp_url();
    // Refused before a token is created that no file could hold.
    entry_of(client, &unfinished(url.clone()))?;
    let file = ClientFile::new(path);
    let entry = client.syntax.found(&file.read()?).map_err(|refusal| file.refused(refusal))?;
    let token = match entry.as_deref().and_then(token_in) {
        Some(token) if is_good(globals, &token).await? => token,
        Some(_) | None => mint(&operator, client).await?,
    };
    Ok(Server::Http { url, token })
}

/// For `--print`: shows where the token would be.
pub(super) fn server_without_token(globals: &Globals) -> Result<Server, CliError> {
    Ok(unfinished(Client::connect(globals)?.mcp_url()))
}

fn unfinished(url: Url) -> Server {
    Server::Http { url, token: SecretString::from("TOKEN".to_owned()) }
}

/// The client's name in the audit trail.
pub(super) fn token_name(client: &McpClient) -> String {
    format!("connect-{}", client.word)
}

async fn is_good(globals: &Globals, token: &SecretString) -> Result<bool, CliError> {
    match Client::connect_as(globals, token)?.get(&["status"], &NoInput {}).await {
        Ok(_) => Ok(true),
        Err(CliError::Answered { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn mint(operator: &Client, client: &McpClient) -> Result<SecretString, CliError> {
    let input = CreateTokenInput {
        kind: OneOf(TokenKind::Manager),
        name: Some(token_name(client)),
        role: None,
        agent: None,
        projects: None,
        expires_in_seconds: None,
    };
    let made: TokenCreated = operator.post(&["tokens"], &input).await?.read()?;
    Ok(SecretString::from(made.token))
}

/// Finds a token by its format, whatever surrounds it.
pub(super) fn token_in(entry: &str) -> Option<SecretString> {
    let mut ends = entry.match_indices(TOKEN_PREFIX).map(|(at, prefix)| &entry[at + prefix.len()..]);
    ends.find_map(|rest| {
        let n_digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        (n_digits == TOKEN_DIGITS).then(|| SecretString::from(format!("{TOKEN_PREFIX}{}", &rest[..n_digits])))
    })
}
