//! Resolves a token's text to its principal, or to the reason for a refusal.

use chrono::Utc;
use secrecy::SecretString;

use super::refused::RefusedToken;
use super::secret::{has_token_prefix, hash_of};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::Principal;
use crate::domain::token::{AgentStanding, Holder, Refusal, TokenLife};
use crate::store::TokenRecord;

impl Fleet {
    /// The principal of a token, or why the token is refused.
    pub async fn token_principal(
        &self,
        text: &SecretString,
    ) -> Result<Result<Principal, RefusedToken>, Error> {
        if !has_token_prefix(text) {
            return Ok(Err(unknown_token()));
        }
        let Some(token) = self.store().token_by_hash(&hash_of(text)).await? else {
            return Ok(Err(unknown_token()));
        };
        let life = self.token_life(&token).check(Utc::now());
        let principal = principal_of(token);
        Ok(match life {
            Ok(()) => Ok(principal),
            Err(reason) => Err(RefusedToken { reason, bearer: Some(principal) }),
        })
    }

    pub(super) fn token_life(&self, token: &TokenRecord) -> TokenLife {
        let holder = match token.agent {
            None => Holder::Person,
            Some(agent) => Holder::Agent {
                generation: token.generation,
                standing: self.board().now().by_id(agent).map(|state| state.standing()),
            },
        };
        TokenLife { expires_at: token.expires_at, revoked_at: token.revoked_at, holder }
    }
}

impl AgentState {
    /// The state of the agent that the validity of its tokens depends on.
    pub(in crate::app) fn standing(&self) -> AgentStanding {
        AgentStanding {
            status: self.agent.sighting.status,
            generation: self.agent.sighting.generation,
            transition: self.live.transition.clone(),
        }
    }
}

fn unknown_token() -> RefusedToken {
    RefusedToken { reason: Refusal::Unknown, bearer: None }
}

fn principal_of(token: TokenRecord) -> Principal {
    Principal {
        kind: token.kind,
        name: token.name,
        role: token.role,
        token_id: Some(token.id),
        agent: token.agent,
        projects: token.projects,
    }
}
