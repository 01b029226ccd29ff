//! Ends a wait when its caller's token becomes invalid: revoked, expired, or its agent stopped.

use std::future::pending;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::app::error::Error;
use crate::domain::access::Principal;
use crate::domain::id::TokenId;
use crate::domain::token::Refusal;

/// The current validity of a token.
enum TokenStatus {
    Valid { until: Option<DateTime<Utc>> },
    RefusedToken(Refusal),
}

impl Fleet {
    /// Runs the wait as long as its caller's token is valid. The wait may be dropped at any await, so it must have no
    /// effects.
    pub(in crate::app) async fn while_admitted<T>(
        &self,
        caller: &Caller,
        wait: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            done = wait => done,
            refusal = self.token_lapse(&caller.principal) => Err(Error::TokenRefused(refusal)),
        }
    }

    /// Returns once the principal's token is invalid. Checked after revocations, changes of the token's agent, and at
    /// its expiry.
    pub async fn token_lapse(&self, principal: &Principal) -> Refusal {
        let Some(id) = principal.token_id else { return pending().await };
        let mut revoked = self.0.tokens.subscribe();
        let mut changes = self.board().changes();
        loop {
            revoked.mark_unchanged();
            changes.mark_unchanged();
            let until = match self.token_status(id).await {
                Ok(TokenStatus::RefusedToken(refusal)) => return refusal,
                Ok(TokenStatus::Valid { until }) => until,
                // An unreadable store refuses all other calls; this wait checks again after the next change.
                Err(_) => None,
            };
            tokio::select! {
                _ = revoked.changed() => {}
                _ = changes.changed(), if principal.agent.is_some() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Whether the principal's token is valid.
    pub async fn token_is_valid(&self, principal: &Principal) -> bool {
        match principal.token_id {
            Some(id) => matches!(self.token_status(id).await, Ok(TokenStatus::Valid { .. })),
            None => true,
        }
    }

    async fn token_status(&self, id: TokenId) -> Result<TokenStatus, Error> {
        let Some(token) = self.store().token_by_id(id).await? else {
            return Ok(TokenStatus::RefusedToken(Refusal::Unknown));
        };
        Ok(match self.token_life(&token).check(Utc::now()) {
            Ok(()) => TokenStatus::Valid { until: token.expires_at },
            Err(refusal) => TokenStatus::RefusedToken(refusal),
        })
    }
}

async fn sleep_until(at: Option<DateTime<Utc>>) {
    match at.map(|at| (at - Utc::now()).to_std().unwrap_or(Duration::ZERO)) {
        Some(left) => match Instant::now().checked_add(left) {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => pending().await,
        },
        None => pending().await,
    }
}
