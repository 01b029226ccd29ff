//! Session tokens of the one user, and tokens of agents: random, stored as hashes.

use rand::RngExt;
use rand::distr::Alphanumeric;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Coder's format: an id and a secret of these lengths with a hyphen between.
const ID_LENGTH: usize = 10;
const SECRET_LENGTH: usize = 22;

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
}
