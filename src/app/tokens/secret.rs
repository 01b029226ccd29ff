//! The text of a token: its creation, form and hash.

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// The prefix of every fleet token, so that a leaked token is recognisable.
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

/// All texts in the form of a fleet token.
pub(in crate::app) fn texts_in(bytes: &[u8]) -> impl Iterator<Item = String> {
    let prefix = PREFIX.as_bytes();
    let starts = bytes.windows(prefix.len()).enumerate().filter(move |(_, window)| *window == prefix);
    starts.filter_map(move |(at, _)| {
        let text = bytes.get(at..at + prefix.len() + 2 * RANDOM_BYTES)?;
        let is_hex = text[prefix.len()..].iter().all(u8::is_ascii_hexdigit);
        is_hex.then(|| String::from_utf8_lossy(text).into_owned())
    })
}

/// Whether the text has the prefix of a fleet token.
pub(super) fn has_token_prefix(text: &SecretString) -> bool {
    text.expose_secret().starts_with(PREFIX)
}
