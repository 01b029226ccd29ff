//! Requests of operators to create a token.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::word::TokenKindWord;
use crate::app::error::Error;
use crate::app::tokens::CreateToken;
use crate::domain::access::AllowedProjects;
use crate::domain::text::printable;
use crate::domain::token::LONGEST_NAME;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTokenInput {
    /// Kind of caller; an agent's token has the kind of its role.
    pub kind: TokenKindWord,
    /// Name of the holder in the audit trail, at most 40 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The agent that an agent token belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Projects a manager token may act on; all if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<i64>,
}

impl CreateTokenInput {
    pub fn into_command(self, now: DateTime<Utc>) -> Result<CreateToken, Error> {
        let lifetime = self.expires_in_seconds.map(|n| (1..=315_360_000).contains(&n).then_some(n));
        if lifetime == Some(None) {
            return Err(Error::invalid(
                "expires_in_seconds",
                "a lifetime must be between one second and ten years",
            ));
        }
        if self.name.as_ref().is_some_and(|name| !is_name(name)) {
            let message = format!("a name must have 1 to {LONGEST_NAME} printable characters");
            return Err(Error::invalid("name", message));
        }
        Ok(CreateToken {
            kind: self.kind.0.role_kind(),
            name: self.name,
            role: self.role,
            agent: self.agent,
            projects: self.projects.map_or(AllowedProjects::All, AllowedProjects::Only),
            expires_at: lifetime.flatten().map(|n| now + chrono::TimeDelta::seconds(n)),
        })
    }
}

/// The name appears in every row of the audit trail, so it must be readable and must not be a secret.
fn is_name(text: &str) -> bool {
    let is_plain = !text.trim().is_empty() && printable(text) == text && !text.contains(['\n', '\t']);
    is_plain && text.chars().count() <= LONGEST_NAME
}
