//! The text of a token: how it is made, and what is kept of it.

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Every token of ours starts so: recognisable in a leak, refused early elsewhere.
const PREFIX: &str = "fleet_";
const RANDOM_BYTES: usize = 32;

pub(in crate::app) fn fresh_text() -> SecretString {
    let bytes: [u8; RANDOM_BYTES] = rand::random();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    SecretString::from(format!("{PREFIX}{hex}"))
}

pub(in crate::app) fn hash_of(text: &SecretString) -> [u8; 32] {
    Sha256::digest(text.expose_secret().as_bytes()).into()
}

/// Every text in there that has the form of a token of ours.
pub(in crate::app) fn texts_in(bytes: &[u8]) -> impl Iterator<Item = String> {
    let prefix = PREFIX.as_bytes();
    let starts = bytes.windows(prefix.len()).enumerate().filter(move |(_, window)| *window == prefix);
    starts.filter_map(move |(at, _)| {
        let text = bytes.get(at..at + prefix.len() + 2 * RANDOM_BYTES)?;
        let is_hex = text[prefix.len()..].iter().all(u8::is_ascii_hexdigit);
        is_hex.then(|| String::from_utf8_lossy(text).into_owned())
    })
}

/// Could it be one of ours at all?
pub(super) fn has_token_prefix(text: &SecretString) -> bool {
    text.expose_secret().starts_with(PREFIX)
}
