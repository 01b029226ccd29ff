//! `stdio --as-role`: a token with the rights of one role, for the lifetime of one bridge.

use chrono::TimeDelta;
use secrecy::SecretString;

use super::client::Client;
use super::error::CliError;
use super::globals::Globals;
use crate::domain::text::cut;
use crate::domain::token::LONGEST_NAME;
use crate::domain::token::TokenKind;
use crate::view::request::{CreateTokenInput, NoInput, OneOf};
use crate::view::token::{TokenCreated, TokenRevoked};

/// A killed bridge does not revoke its token, so the token expires.
const LIFETIME: TimeDelta = TimeDelta::days(30);

#[derive(Debug)]
pub struct RoleToken {
    pub token: SecretString,
    id: String,
    operator: Client,
}

impl RoleToken {
    /// Created by the owner of the data directory, for its running server. The bridge itself acts as a manager, and
    /// a role adds no rights: an agent's token is never an operator's.
    pub async fn mint(globals: &Globals, role: &str) -> Result<Self, CliError> {
        let operator = Client::connect(globals)?;
        let input = CreateTokenInput {
            kind: OneOf(TokenKind::Agent),
            name: Some(cut(&format!("stdio-{role}"), LONGEST_NAME)),
            role: Some(role.to_owned()),
            agent: None,
            projects: None,
            expires_in_seconds: Some(LIFETIME.num_seconds()),
        };
        let made: TokenCreated = operator.post(&["tokens"], &input).await?.read()?;
        Ok(Self { token: SecretString::from(made.token), id: made.id, operator })
    }

    /// Revokes the token when the bridge ends. If the server is gone too, the token expires.
    pub async fn revoke(self) -> Result<(), CliError> {
        self.operator.delete(&["tokens", &self.id], &NoInput {}).await?.read::<TokenRevoked>().map(drop)
    }
}
