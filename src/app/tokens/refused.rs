//! Audits refused calls, with a limit per token, including calls with an invalid token.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::Utc;

use crate::app::Fleet;
use crate::app::caller::Surface;
use crate::domain::access::Principal;
use crate::domain::id::TokenId;
use crate::domain::token::Refusal;
use crate::store::{AuditOutcome, AuditRow, StoreError};

/// The contract's code for a refused token.
pub const UNAUTHENTICATED: &str = "UNAUTHENTICATED";

/// An agent that calls in a loop must not fill the disk.
const MOST_ROWS: u32 = 100;
const WINDOW: Duration = Duration::from_mins(1);
const NOT_RECORDED: &str = "further refused calls of this token are not recorded in this minute";

/// Why a token is refused, and its principal; none for an unknown token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedToken {
    pub reason: Refusal,
    pub(super) bearer: Option<Principal>,
}

/// The request of a refused call, in values that cannot contain the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptedCall {
    pub surface: Surface,
    pub action: String,
    pub target: Option<String>,
}

/// The number of audited refusals per token in the current minute.
#[derive(Debug, Default)]
pub(in crate::app) struct RefusedCalls(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    rows: HashMap<TokenId, u32>,
    /// Unaudited calls of earlier minutes, until the token's next row reports their number.
    unrecorded: HashMap<TokenId, u32>,
}

/// Whether a refused call gets a row in the trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowDecision {
    Row { unrecorded_before: u32 },
    LastRow,
    NoRow,
}

impl RefusedToken {
    /// Whether the token exists or existed.
    pub fn is_known(&self) -> bool {
        self.bearer.is_some()
    }
}

impl Fleet {
    /// Audits a refused call. The call is refused even if the row cannot be written.
    pub async fn refusal_record(&self, refused: &RefusedToken, attempt: AttemptedCall) {
        let Some(bearer) = &refused.bearer else { return };
        if let Err(error) = self.audit_refused(row(bearer, attempt, refused.reason.to_string())).await {
            tracing::warn!(
                %error, principal.name = bearer.name,
                "a refused call could not be recorded in the audit trail"
            );
        }
    }

    /// Adds the row of a refused call within the token's limit per minute.
    pub(in crate::app) async fn audit_refused(&self, mut row: AuditRow) -> Result<(), StoreError> {
        let first = RowDecision::Row { unrecorded_before: 0 };
        let decide = row.token_id.map_or(first, |token| self.0.refused_calls.decide(token, Instant::now()));
        let note = match decide {
            RowDecision::Row { unrecorded_before: 0 } => None,
            RowDecision::Row { unrecorded_before } => {
                Some(format!("{unrecorded_before} refused calls before it are not recorded"))
            }
            RowDecision::LastRow => Some(NOT_RECORDED.to_owned()),
            RowDecision::NoRow => return Ok(()),
        };
        let parts: Vec<String> = row.reason.take().into_iter().chain(note).collect();
        row.reason = (!parts.is_empty()).then(|| parts.join("; "));
        self.store().audit_add(&row).await
    }
}

impl RefusedCalls {
    fn decide(&self, token: TokenId, now: Instant) -> RowDecision {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            window.turn(now);
        }
        let unrecorded_before = window.unrecorded.remove(&token).unwrap_or_default();
        let rows = window.rows.entry(token).or_default();
        *rows = rows.saturating_add(1);
        match (*rows).cmp(&MOST_ROWS) {
            std::cmp::Ordering::Less => RowDecision::Row { unrecorded_before },
            std::cmp::Ordering::Equal => RowDecision::LastRow,
            std::cmp::Ordering::Greater => RowDecision::NoRow,
        }
    }
}

impl Window {
    fn turn(&mut self, now: Instant) {
        self.began = Some(now);
        for (token, n_calls) in self.rows.drain().filter(|(_, n_calls)| *n_calls > MOST_ROWS) {
            let unrecorded = self.unrecorded.entry(token).or_default();
            *unrecorded = unrecorded.saturating_add(n_calls - MOST_ROWS);
        }
    }
}

fn row(bearer: &Principal, attempt: AttemptedCall, reason: String) -> AuditRow {
    AuditRow {
        at: Utc::now(),
        principal_kind: bearer.kind,
        principal: bearer.name.clone(),
        token_id: bearer.token_id,
        surface: attempt.surface.word().to_owned(),
        action: attempt.action,
        target: attempt.target,
        outcome: AuditOutcome::Denied,
        code: Some(UNAUTHENTICATED.to_owned()),
        reason: Some(reason),
        operation_id: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_a_loop_has_so_many_rows_a_minute_a_count_of_the_rest_and_takes_none_from_another() {
        let (calls, now) = (RefusedCalls::default(), Instant::now());
        let (looping, other) = (TokenId::fresh(), TokenId::fresh());
        let decisions: Vec<RowDecision> = (0..MOST_ROWS + 2).map(|_| calls.decide(looping, now)).collect();
        let mut expected = vec![RowDecision::Row { unrecorded_before: 0 }; MOST_ROWS as usize - 1];
        expected.extend([RowDecision::LastRow, RowDecision::NoRow, RowDecision::NoRow]);
        assert_eq!(decisions, expected);
        assert_eq!(calls.decide(other, now), RowDecision::Row { unrecorded_before: 0 });
        let next_minute = [(); 2].map(|()| calls.decide(looping, now + WINDOW));
        assert_eq!(next_minute, [2, 0].map(|unrecorded_before| RowDecision::Row { unrecorded_before }));
    }
}
