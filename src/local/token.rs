//! Session tokens of the one user, and tokens of agents: random, stored as hashes.

use chrono::{DateTime, TimeDelta, Utc};
use rand::RngExt;
use rand::distr::Alphanumeric;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Coder's format: an id and a secret of these lengths with a hyphen between.
const ID_LENGTH: usize = 10;
const SECRET_LENGTH: usize = 22;
/// Coder's limit for the lifetime of tokens.
pub(crate) const LONGEST_LIFE: TimeDelta = TimeDelta::hours(168);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredToken {
    /// The public part of the token; not stored for the earliest ones.
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) hash: String,
    #[serde(default)]
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) expires_at: DateTime<Utc>,
}

impl StoredToken {
    pub(crate) fn new(name: String, token: &str, lifetime: TimeDelta) -> Self {
        let id = token.split('-').next().unwrap_or_default().to_owned();
        let created_at = Utc::now();
        Self { id, name, hash: hash(token), created_at, expires_at: created_at + lifetime }
    }

    pub(crate) fn is(&self, token: &str) -> bool {
        matches(&self.hash, token) && self.expires_at > Utc::now()
    }
}

pub(crate) fn generate() -> String {
    let mut letters = rand::rng().sample_iter(Alphanumeric).map(char::from);
    let id: String = letters.by_ref().take(ID_LENGTH).collect();
    let secret: String = letters.take(SECRET_LENGTH).collect();
    format!("{id}-{secret}")
}

pub(crate) fn hash(token: &str) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn matches(known_hash: &str, token: &str) -> bool {
    is_same(known_hash, &hash(token))
}

/// Compares hashes in constant time.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// What is wrong with the format of a token, in Coder's words.
pub(crate) fn malformed(token: &str) -> Option<String> {
    let parts: Vec<&str> = token.split('-').collect();
    let problem = match parts.as_slice() {
        [id, _] if id.len() != ID_LENGTH => {
            format!("invalid API key ID length, expected {ID_LENGTH} got {}", id.len())
        }
        [_, secret] if secret.len() != SECRET_LENGTH => {
            format!("invalid API key secret length, expected {SECRET_LENGTH} got {}", secret.len())
        }
        [_, _] => return None,
        other => format!("incorrect amount of API key parts, expected 2 got {}", other.len()),
    };
    Some(format!("Invalid API key format: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_token_has_coders_form_and_fits_its_own_hash_alone() {
        let (token, other) = (generate(), generate());
        assert_eq!(malformed(&token), None);
        assert!(matches(&hash(&token), &token));
        assert!(!matches(&hash(&token), &other));
    }

    #[test]
    fn an_expired_token_is_none() {
        let token = generate();
        let stored = |lifetime| StoredToken::new("t".into(), &token, lifetime);
        assert!(stored(TimeDelta::minutes(1)).is(&token));
        assert!(!stored(TimeDelta::minutes(-1)).is(&token));
    }
}
