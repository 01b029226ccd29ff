//! Agent metadata: which keys are ours, which values are valid, and which source takes precedence.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use thiserror::Error;

pub const PREFIX: &str = "fleet_mcp_";
pub const AGENT_SPEC: &str = "fleet_mcp_agent_spec";
pub const PULL_REQUEST_URL: &str = "fleet_mcp_pull_request_url";
pub const PULL_REQUEST_STATUS: &str = "fleet_mcp_pull_request_status";
pub const PULL_REQUEST_CHECK_STATUS: &str = "fleet_mcp_pull_request_check_status";
/// Notes for the creator of an agent about its start; only a template sets it.
pub const START_NOTE: &str = "fleet_mcp_start_note";
/// The agent's usage so far: tokens and costs.
pub const USAGE: &str = "fleet_mcp_usage";

/// Keys that every list call requests from Coder.
pub const LISTED: [&str; 10] = [
    AGENT_SPEC,
    "fleet_mcp_agent_name",
    "fleet_mcp_role",
    "fleet_mcp_project",
    PULL_REQUEST_URL,
    PULL_REQUEST_STATUS,
    PULL_REQUEST_CHECK_STATUS,
    "fleet_mcp_branch",
    "fleet_mcp_git",
    USAGE,
];

/// The keys that rows of lists show.
const IN_ROWS: [&str; 3] = [PULL_REQUEST_URL, PULL_REQUEST_STATUS, PULL_REQUEST_CHECK_STATUS];
/// Templates order their metadata by numeric prefixes of the keys.
const MOST_NUMBERED: u32 = 20;

const MAX_KEY: usize = 80;
/// Limits per agent: the number of keys, and the bytes of keys and values together.
pub const MOST_KEYS: usize = 100;
pub const MOST_BYTES: usize = 64 * 1024;
const MAX_VALUE: usize = MOST_BYTES;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum MetadataError {
    #[error("a metadata key starts with '{PREFIX}', followed by lower-case letters, digits and underscores")]
    Key,
    #[error("a metadata value has at most {MAX_VALUE} bytes")]
    Value,
}

/// A key that a caller may set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetadataKey(String);

impl MetadataKey {
    pub fn parse(text: &str) -> Result<Self, MetadataError> {
        let rest = text.strip_prefix(PREFIX).ok_or(MetadataError::Key)?;
        let well_formed = !rest.is_empty()
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !well_formed || text.len() > MAX_KEY {
            return Err(MetadataError::Key);
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub fn check_value(value: &str) -> Result<(), MetadataError> {
    if value.len() > MAX_VALUE { Err(MetadataError::Value) } else { Ok(()) }
}

/// A value and the time of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dated {
    pub value: String,
    pub changed_at: DateTime<Utc>,
}

pub type Metadata = BTreeMap<String, Dated>;

/// The full key for a template's key `fleet_mcp_x`, `8_x` or `x`; none for foreign keys.
pub fn canonical_key(key: &str) -> Option<String> {
    let lower = key.to_ascii_lowercase();
    if lower.starts_with(PREFIX) {
        return Some(lower);
    }
    let bare = match lower.split_once('_') {
        Some((number, rest)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => rest,
        Some(_) | None => &lower,
    };
    let full = format!("{PREFIX}{bare}");
    LISTED.contains(&full.as_str()).then_some(full)
}

/// All names under which a list can request its keys: Coder has no patterns.
pub fn listed_names() -> Vec<String> {
    let bare = |key: &&'static str| key.strip_prefix(PREFIX);
    let numbered = (0..MOST_NUMBERED)
        .flat_map(|number| IN_ROWS.iter().filter_map(bare).map(move |key| format!("{number}_{key}")));
    let plain = LISTED.iter().copied().chain(LISTED.iter().filter_map(bare));
    plain.map(str::to_owned).chain(numbered).collect()
}

/// Templates print nothing, or `n/a`, for a missing value.
pub fn is_value(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.eq_ignore_ascii_case("n/a")
}

/// Per key the value that changed last; between equals the later source wins.
pub fn merge(sources: impl IntoIterator<Item = Metadata>) -> Metadata {
    let mut merged = Metadata::new();
    for (key, dated) in sources.into_iter().flatten() {
        let is_newer = merged.get(&key).is_none_or(|known| dated.changed_at >= known.changed_at);
        if is_newer && is_value(&dated.value) {
            merged.insert(key, dated);
        }
    }
    merged
}

/// The metadata within the bounds: preferred keys first, then others by name, so that repeated reads keep the same
/// ones. The few keys that the fleet itself reads are exempt.
pub fn bounded(metadata: Metadata, is_preferred: impl Fn(&str) -> bool) -> Metadata {
    let (mut kept, others): (Metadata, Metadata) =
        metadata.into_iter().partition(|(key, _)| LISTED.contains(&key.as_str()));
    let mut entries: Vec<(String, Dated)> = others.into_iter().collect();
    entries.sort_by_key(|(key, _)| !is_preferred(key));
    let mut left = MOST_BYTES;
    let fits = |(key, dated): &(String, Dated)| {
        let needed = key.len() + dated.value.len();
        let is_room = needed <= left;
        left -= if is_room { needed } else { 0 };
        is_room
    };
    kept.extend(entries.into_iter().filter(fits).take(MOST_KEYS));
    kept
}

/// Dates values that were just read: an unchanged value keeps its date, a new one gets the current time.
pub fn date(known: &Metadata, read: BTreeMap<String, String>, now: DateTime<Utc>) -> Metadata {
    let dated = |(key, value): (String, String)| match known.get(&key) {
        Some(old) if old.value == value => (key, old.clone()),
        Some(_) | None => (key, Dated { value, changed_at: now }),
    };
    read.into_iter().map(dated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(value: &str, second: i64) -> Dated {
        Dated { value: value.into(), changed_at: DateTime::from_timestamp(second, 0).unwrap() }
    }

    fn source(entries: &[(&str, &str, i64)]) -> Metadata {
        entries.iter().map(|(key, value, at)| ((*key).to_owned(), dated(value, *at))).collect()
    }

    #[test]
    fn keys_are_found_in_all_their_forms() {
        let full = Some("fleet_mcp_pull_request_url".to_owned());
        assert_eq!(canonical_key("fleet_mcp_pull_request_url"), full);
        assert_eq!(canonical_key("Fleet_MCP_Pull_Request_URL"), full);
        assert_eq!(canonical_key("8_pull_request_url"), full);
        assert_eq!(canonical_key("pull_request_url"), full);
        assert_eq!(canonical_key("fleet_mcp_anything"), Some("fleet_mcp_anything".to_owned()));
        assert_eq!(canonical_key("0_cpu_usage"), None);
        assert_eq!(canonical_key("_x"), None);
    }

    #[test]
    fn lists_ask_by_every_name_a_key_may_have() {
        let names = listed_names();
        for name in ["fleet_mcp_git", "git", "fleet_mcp_pull_request_url", "pull_request_url"] {
            assert!(names.contains(&name.to_owned()), "{name}");
        }
        let numbered: Vec<&String> = names.iter().filter(|name| name.contains("_pull_request_url")).collect();
        assert_eq!((numbered.len(), names.len()), (21, 80));
        assert!(names.iter().all(|name| canonical_key(name).is_some()));
    }

    #[test]
    fn the_value_that_changed_last_wins_and_empty_ones_never_do() {
        let ours = source(&[("a", "ours", 5), ("b", "ours", 5)]);
        let coders = source(&[("a", "coder", 4), ("b", "coder", 6), ("c", "n/a", 9)]);
        let late_blank = source(&[("a", " ", 99)]);
        assert_eq!(merge([coders, ours, late_blank]), source(&[("a", "ours", 5), ("b", "coder", 6)]));
    }

    #[test]
    fn a_value_counts_from_when_it_was_first_seen() {
        let known = source(&[("a", "old", 1), ("b", "same", 1)]);
        let read = BTreeMap::from([("a".to_owned(), "new".to_owned()), ("b".to_owned(), "same".to_owned())]);
        let dated = date(&known, read, DateTime::from_timestamp(9, 0).unwrap());
        assert_eq!(dated, source(&[("a", "new", 9), ("b", "same", 1)]));
    }

    #[test]
    fn what_fits_is_kept_and_what_matters_most_fits_first() {
        let many = (0..200).map(|number| (format!("fleet_mcp_{number:03}"), dated("x", 1)));
        let mut metadata: Metadata = many.collect();
        metadata.insert(USAGE.to_owned(), dated("{}", 1));
        let kept = bounded(metadata.clone(), |key| key == "fleet_mcp_150");
        let last = kept.keys().rev().take(3).map(String::as_str).collect::<Vec<_>>();
        assert_eq!((kept.len(), last), (MOST_KEYS + 1, vec![USAGE, "fleet_mcp_150", "fleet_mcp_098"]));
        assert_eq!(bounded(kept.clone(), |key| key == "fleet_mcp_150"), kept);

        let large = dated(&"x".repeat(40_000), 1);
        let metadata = ["a", "b", "c"].map(|key| (key.to_owned(), large.clone()));
        let kept = bounded(metadata.into(), |key| key == "b");
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn only_our_keys_can_be_set() {
        assert!(MetadataKey::parse("fleet_mcp_ticket_2").is_ok());
        for bad in
            ["ticket", "fleet_mcp_", "fleet_mcp_A", "fleet_mcp_a-b", &format!("fleet_mcp_{}", "x".repeat(80))]
        {
            assert_eq!(MetadataKey::parse(bad), Err(MetadataError::Key), "{bad}");
        }
    }
}
