//! Calls that are refused: the trail says who tried what, with a bound for each token. Those with a dead token begin here.

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

/// The contract's code for whoever is not let in.
pub const UNAUTHENTICATED: &str = "UNAUTHENTICATED";

/// An agent that calls in a loop must not fill the disk: that many rows a minute tell enough.
const MOST_ROWS: u32 = 100;
const WINDOW: Duration = Duration::from_mins(1);
const NOT_RECORDED: &str = "further refused calls of this token are not recorded in this minute";

/// Why a token is refused, and whose it was. Nobody knows that of a token that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub reason: Refusal,
    pub(super) bearer: Option<Principal>,
}

/// What was asked for with the token, in words that cannot hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub surface: Surface,
    pub action: String,
    pub target: Option<String>,
}

/// How many rows of refused calls each token has had in this minute.
#[derive(Debug, Default)]
pub(in crate::app) struct RefusedCalls(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    rows: HashMap<TokenId, u32>,
    /// Calls of earlier minutes that have no row, until the next row of their token tells their number.
    unrecorded: HashMap<TokenId, u32>,
}

/// What becomes of a refused call in the trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Row { unrecorded_before: u32 },
    LastRow,
    None,
}

impl Refused {
    /// Was it ever a token of ours?
    pub fn is_known(&self) -> bool {
        self.bearer.is_some()
    }
}

impl Fleet {
    /// Leaves the row of a refused call. The caller is turned away whether or not it could be written.
    pub async fn refusal_record(&self, refused: &Refused, attempt: Attempt) {
        let Some(bearer) = &refused.bearer else { return };
        if let Err(error) = self.audit_refused(row(bearer, attempt, refused.reason.to_string())).await {
            tracing::warn!(
                %error, principal.name = bearer.name,
                "a refused call could not be recorded in the audit trail"
            );
        }
    }

    /// Adds the row of a refused call, unless its token has had its rows of this minute.
    pub(in crate::app) async fn audit_refused(&self, mut row: AuditRow) -> Result<(), StoreError> {
        let first = Place::Row { unrecorded_before: 0 };
        let place = row.token_id.map_or(first, |token| self.0.refused_calls.place(token, Instant::now()));
        let note = match place {
            Place::Row { unrecorded_before: 0 } => None,
            Place::Row { unrecorded_before } => {
                Some(format!("{unrecorded_before} refused calls before it are not recorded"))
            }
            Place::LastRow => Some(NOT_RECORDED.to_owned()),
            Place::None => return Ok(()),
        };
        let parts: Vec<String> = row.reason.take().into_iter().chain(note).collect();
        row.reason = (!parts.is_empty()).then(|| parts.join("; "));
        self.store().audit_add(&row).await
    }
}

impl RefusedCalls {
    fn place(&self, token: TokenId, now: Instant) -> Place {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            window.turn(now);
        }
        let unrecorded_before = window.unrecorded.remove(&token).unwrap_or_default();
        let rows = window.rows.entry(token).or_default();
        *rows = rows.saturating_add(1);
        match (*rows).cmp(&MOST_ROWS) {
            std::cmp::Ordering::Less => Place::Row { unrecorded_before },
            std::cmp::Ordering::Equal => Place::LastRow,
            std::cmp::Ordering::Greater => Place::None,
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

fn row(bearer: &Principal, attempt: Attempt, reason: String) -> AuditRow {
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
        let places: Vec<Place> = (0..MOST_ROWS + 2).map(|_| calls.place(looping, now)).collect();
        let mut expected = vec![Place::Row { unrecorded_before: 0 }; MOST_ROWS as usize - 1];
        expected.extend([Place::LastRow, Place::None, Place::None]);
        assert_eq!(places, expected);
        assert_eq!(calls.place(other, now), Place::Row { unrecorded_before: 0 });
        let next_minute = [(); 2].map(|()| calls.place(looping, now + WINDOW));
        assert_eq!(next_minute, [2, 0].map(|unrecorded_before| Place::Row { unrecorded_before }));
    }
}
