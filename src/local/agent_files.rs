//! The files between the server and an agent: what it is told, what it prints, and its metadata.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use chrono::{DateTime, Utc};
use serde_json::json;

use super::build::Place;
use super::memory::MetadataItem;
use super::parameters::value_of;
use super::template::{PROMPT, SYSTEM_PROMPT};
use super::{AgentFile, LocalError, files};
use crate::coder::wire::ParameterValue;

/// Coder cuts metadata here, and says so.
const LONGEST_VALUE: usize = 2_048;
/// Of a log that grew without bounds the end is shown.
const LONGEST_LOG: u64 = 1024 * 1024;
const OUR_PREFIX: &str = "fleet_mcp_";
const AGENT_SPEC: &str = "fleet_mcp_agent_spec";

/// What an agent is told at its start.
#[derive(Debug)]
pub(crate) struct Briefing<'a> {
    pub(crate) place: &'a Place,
    pub(crate) values: &'a [ParameterValue],
    /// What is the same for all agents.
    pub(crate) common: &'a [AgentFile],
}

pub(crate) fn write(briefing: &Briefing<'_>) -> Result<(), LocalError> {
    let (fleet, values) = (&briefing.place.fleet, briefing.values);
    let text = |name| value_of(values, name).unwrap_or_default();
    files::private_file(&fleet.join("prompt"), text(PROMPT))?;
    files::private_file(&fleet.join("system_prompt"), text(SYSTEM_PROMPT))?;
    let parameters: serde_json::Map<_, _> =
        values.iter().map(|value| (value.name.clone(), json!(value.value))).collect();
    files::private_file(&fleet.join("parameters.json"), &json!(parameters).to_string())?;
    for file in briefing.common {
        files::private_file(&fleet.join(file.name), &file.text)?;
    }
    first_metadata(briefing)
}

/// The parameters are the first metadata there is; what the agent has written since is left alone.
fn first_metadata(briefing: &Briefing<'_>) -> Result<(), LocalError> {
    let directory = briefing.place.metadata();
    files::private_directory(&directory)?;
    let spec = value_of(briefing.values, PROMPT).map(|value| (AGENT_SPEC, value));
    let ours = briefing.values.iter().filter(|value| value.name.starts_with(OUR_PREFIX));
    let ours = ours.map(|value| (value.name.as_str(), value.value.as_str()));
    for (name, value) in ours.chain(spec).filter(|(_, value)| !value.is_empty()) {
        let path = directory.join(name);
        if !path.exists() {
            files::private_file(&path, value)?;
        }
    }
    Ok(())
}

/// All metadata of an agent, by key. Values that did not change keep the time they were collected first.
pub(crate) fn read_metadata(directory: &Path, known: &[MetadataItem]) -> Vec<MetadataItem> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let keys = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let ours = keys.filter(|key| key.starts_with(OUR_PREFIX) && !key.contains('.'));
    let mut items: Vec<MetadataItem> = ours.filter_map(|key| read_item(directory, key, Utc::now())).collect();
    items.sort_by(|one, other| one.key.cmp(&other.key));
    for item in &mut items {
        let same =
            |old: &&MetadataItem| old.key == item.key && old.value == item.value && old.error == item.error;
        if let Some(old) = known.iter().find(same) {
            item.collected_at = old.collected_at;
        }
    }
    items
}

fn read_item(directory: &Path, key: String, now: DateTime<Utc>) -> Option<MetadataItem> {
    let file = std::fs::File::open(directory.join(&key)).ok()?;
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut bytes = Vec::new();
    // A value may be any size on disk; in memory it may not.
    file.take(LONGEST_LOG).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let value = text.trim();
    if value.len() <= LONGEST_VALUE {
        return Some(MetadataItem { key, value: value.to_owned(), error: String::new(), collected_at: now });
    }
    let error = format!("value of {size} bytes exceeded {LONGEST_VALUE} bytes");
    let end = (0..=LONGEST_VALUE).rev().find(|at| value.is_char_boundary(*at)).unwrap_or_default();
    Some(MetadataItem { key, value: value.get(..end)?.to_owned(), error, collected_at: now })
}

/// What an agent printed since its start.
pub(crate) fn read_log(log: &Path, start: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(log)?;
        let from = start.max(file.metadata()?.len().saturating_sub(LONGEST_LOG));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(LONGEST_LOG).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_trimmed_cut_and_dated_by_its_last_change() {
        let directory = tempfile::tempdir().unwrap();
        let put = |key: &str, value: &str| std::fs::write(directory.path().join(key), value).unwrap();
        put("fleet_mcp_branch", "main\n");
        put("fleet_mcp_long", &"x".repeat(3_000));
        put("fleet_mcp_half.tmp", "being written");
        put("other", "not ours");
        let first = read_metadata(directory.path(), &[]);
        let shown: Vec<(&str, usize, &str)> =
            first.iter().map(|item| (item.key.as_str(), item.value.len(), item.error.as_str())).collect();
        let error = "value of 3000 bytes exceeded 2048 bytes";
        assert_eq!(shown, [("fleet_mcp_branch", 4, ""), ("fleet_mcp_long", 2_048, error)]);
        assert_eq!(read_metadata(directory.path(), &first), first);
        put("fleet_mcp_branch", "other");
        assert_ne!(read_metadata(directory.path(), &first)[0].collected_at, first[0].collected_at);
    }
}
