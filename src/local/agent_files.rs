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
    let end = value.floor_char_boundary(LONGEST_VALUE);
    Some(MetadataItem { key, value: value.get(..end)?.to_owned(), error, collected_at: now })
}

/// A line that an agent printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// How many bytes the agent had printed at the line's end: it stays the same however long the log grows.
    pub(crate) id: u64,
    pub(crate) text: String,
}

/// The end of what an agent printed since its start.
pub(crate) fn read_log(log: &Path, start: u64) -> String {
    let bytes = end_of(log, start).and_then(|from| read_from(log, from)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The lines after the one of this id, as many as one look takes in; after none, the last ones there are. A line
/// that is not finished yet is left for later, else it would be cut in two.
pub(crate) fn read_lines(log: &Path, start: u64, after: u64) -> Vec<Line> {
    let from = if after == 0 { end_of(log, start) } else { Ok(start + after) };
    let read = from.and_then(|from| Ok((from, read_from(log, from)?)));
    let Ok((from, bytes)) = read else { return Vec::new() };
    // What the end of a long log begins with is the rest of a line.
    let n_cut = usize::from(after == 0 && from > start);
    whole_lines(from - start, &bytes).skip(n_cut).collect()
}

fn whole_lines(mut end: u64, bytes: &[u8]) -> impl Iterator<Item = Line> {
    let is_whole = |line: &&[u8]| line.ends_with(b"\n") || line.len() as u64 == LONGEST_LOG;
    bytes.split_inclusive(|byte| *byte == b'\n').take_while(is_whole).map(move |line| {
        end += line.len() as u64;
        let text = String::from_utf8_lossy(line);
        Line { id: end, text: text.trim_end_matches(['\r', '\n']).to_owned() }
    })
}

/// Where the part of a log begins that is shown when it has grown without bounds.
fn end_of(log: &Path, start: u64) -> std::io::Result<u64> {
    Ok(start.max(std::fs::metadata(log)?.len().saturating_sub(LONGEST_LOG)))
}

fn read_from(log: &Path, from: u64) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(log)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LONGEST_LOG).read_to_end(&mut bytes)?;
    Ok(bytes)
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

    #[test]
    fn a_line_keeps_its_id_however_long_the_log_grows() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let filler = "x".repeat(99) + "\n";
        let n_lines = LONGEST_LOG / 100 + 10;
        let line = |id: u64, text: &str| Line { id, text: text.to_owned() };
        std::fs::write(&log, "of an earlier agent\nfirst\r\nunfinished").unwrap();
        assert_eq!(read_lines(&log, 20, 0), [line(7, "first")]);
        assert_eq!(read_lines(&log, 20, 7), []);

        let mut file = std::fs::File::options().append(true).open(&log).unwrap();
        std::io::Write::write_all(&mut file, format!("\n{}", filler.repeat(n_lines as usize)).as_bytes())
            .unwrap();
        let next = read_lines(&log, 20, 7);
        assert_eq!(next[0], line(18, "unfinished"));
        // Page by page it is the same as the end at one look, and nothing is missing.
        let rest = read_lines(&log, 20, next.last().unwrap().id);
        let ids: Vec<u64> = next.iter().chain(&rest).map(|line| line.id).collect();
        assert_eq!(ids, (0..=n_lines).map(|number| 18 + 100 * number).collect::<Vec<_>>());
        let last = read_lines(&log, 20, 0);
        assert_eq!((last.last(), last.len() as u64), (rest.last(), LONGEST_LOG / 100));
    }

    #[test]
    fn a_line_that_fills_one_look_is_shown_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, format!("a\n{}", "x".repeat(LONGEST_LOG as usize + 1))).unwrap();
        let ids: Vec<u64> = read_lines(&log, 0, 2).iter().map(|line| line.id).collect();
        assert_eq!(ids, [2 + LONGEST_LOG]);
    }
}
