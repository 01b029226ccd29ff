//! Reads and writes the files shared by the server and an agent: start files, log and metadata.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use chrono::{DateTime, Utc};
use rustix::fs::OFlags;
use serde_json::json;

use super::build::WorkspaceDirs;
use super::memory::MetadataItem;
use super::parameters::value_of;
use super::template::{PROMPT, SYSTEM_PROMPT};
use super::{AgentFile, LocalError};
use crate::coder::wire::ParameterValue;
use crate::domain::metadata::{LISTED, MOST_BYTES, MOST_KEYS};
use crate::files::Durability;
use crate::files::beneath::{Content, Directory};

/// Coder truncates longer metadata values and adds an error.
const LONGEST_VALUE: usize = 2_048;
/// Bounds on metadata reads: an agent may create any number of files of any size.
const LONGEST_FILE: u64 = 16 * 1024;
const MOST_ENTRIES: usize = 1_000;
/// Of a longer log only the end is shown.
const LONGEST_LOG: u64 = 1024 * 1024;
const OUR_PREFIX: &str = "fleet_mcp_";
const AGENT_SPEC: &str = "fleet_mcp_agent_spec";

/// The files that the server writes before it starts an agent.
#[derive(Debug)]
pub(crate) struct StartFiles {
    pub(crate) dirs: WorkspaceDirs,
    pub(crate) values: Vec<ParameterValue>,
    /// Files that are the same for all agents.
    pub(crate) common: Vec<AgentFile>,
}

pub(crate) fn write(files: &StartFiles) -> Result<(), LocalError> {
    let values = &files.values;
    let text = |name| value_of(values, name).unwrap_or_default();
    let parameters: serde_json::Map<_, _> =
        values.iter().map(|value| (value.name.clone(), json!(value.value))).collect();
    let parameters = json!(parameters).to_string();
    let own =
        [("prompt", text(PROMPT)), ("system_prompt", text(SYSTEM_PROMPT)), ("parameters.json", &parameters)];
    let common = files.common.iter().map(|file| (file.name, file.text.as_str()));
    files.dirs.write(&own.into_iter().chain(common).collect::<Vec<_>>())?;
    first_metadata(files)
}

/// Publishes the parameters as the first metadata; values that the agent has written since are kept.
fn first_metadata(files: &StartFiles) -> Result<(), LocalError> {
    let directory = files.dirs.make_metadata()?;
    let spec = value_of(&files.values, PROMPT).map(|value| (AGENT_SPEC, value));
    let ours = files.values.iter().filter(|value| value.name.starts_with(OUR_PREFIX));
    let ours = ours.map(|value| (value.name.as_str(), value.value.as_str()));
    for (name, value) in ours.chain(spec).filter(|(_, value)| !value.is_empty()) {
        if !directory.has(name) {
            let written = directory.replace(name, value.as_bytes(), Durability::Synced);
            written.map_err(LocalError::directory(&files.dirs.fleet))?;
        }
    }
    Ok(())
}

/// All metadata of an agent, by key. An unchanged value keeps the time at which it was first read.
pub(crate) fn read_metadata(dirs: &WorkspaceDirs, known: &[MetadataItem]) -> Vec<MetadataItem> {
    dated(dirs.metadata().and_then(|directory| read_items(&directory)).unwrap_or_default(), known)
}

fn dated(mut items: Vec<MetadataItem>, known: &[MetadataItem]) -> Vec<MetadataItem> {
    for item in &mut items {
        let same =
            |old: &&MetadataItem| old.key == item.key && old.value == item.value && old.error == item.error;
        if let Some(old) = known.iter().find(same) {
            item.collected_at = old.collected_at;
        }
    }
    items
}

fn read_items(directory: &Directory) -> std::io::Result<Vec<MetadataItem>> {
    let names = directory.names(MOST_ENTRIES)?.into_iter().filter_map(|name| name.into_string().ok());
    let mut keys: Vec<String> =
        names.filter(|key| key.starts_with(OUR_PREFIX) && !key.contains('.')).collect();
    // The keys that the fleet reads come first, so that an agent's own keys cannot displace them.
    keys.sort_unstable_by(|one, other| rank(one).cmp(&rank(other)).then_with(|| one.cmp(other)));
    let now = Utc::now();
    let mut items = within_bounds(keys.into_iter().filter_map(|key| read_item(directory, key, now)));
    items.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(items)
}

fn rank(key: &str) -> bool {
    !LISTED.contains(&key)
}

/// A value beyond the byte limit is replaced by an error; keys beyond the key limit are omitted.
fn within_bounds(items: impl Iterator<Item = MetadataItem>) -> Vec<MetadataItem> {
    let mut left = MOST_BYTES;
    let bounded =
        items.take(MOST_KEYS).map(|item| match left.checked_sub(item.key.len() + item.value.len()) {
            Some(rest) => {
                left = rest;
                item
            }
            None => {
                let error = format!("all metadata of this agent together exceeded {MOST_BYTES} bytes");
                MetadataItem { value: String::new(), error, ..item }
            }
        });
    bounded.collect()
}

fn read_item(directory: &Directory, key: String, now: DateTime<Utc>) -> Option<MetadataItem> {
    let Content { bytes, size } = directory.read(&key, LONGEST_FILE).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let value = text.trim();
    if value.len() <= LONGEST_VALUE {
        return Some(MetadataItem { key, value: value.to_owned(), error: String::new(), collected_at: now });
    }
    let error = format!("value of {size} bytes exceeded {LONGEST_VALUE} bytes");
    let end = value.floor_char_boundary(LONGEST_VALUE);
    Some(MetadataItem { key, value: value.get(..end)?.to_owned(), error, collected_at: now })
}

/// Starts a new log file and renames the previous one. The file must be new: an earlier agent's process may hold a
/// lease on the old file, and opening that file would block.
pub(crate) fn begin_log(log: &Path) -> std::io::Result<File> {
    match std::fs::rename(log, log.with_added_extension("old")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    File::options().append(true).create_new(true).mode(0o600).open(log)
}

/// The end of what an agent printed since its start.
pub(crate) fn read_log(log: &Path, start: u64) -> String {
    let bytes = end_of(log, start).and_then(|from| read_from(log, from)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the displayed part of a long log starts.
fn end_of(log: &Path, start: u64) -> std::io::Result<u64> {
    Ok(start.max(std::fs::metadata(log)?.len().saturating_sub(LONGEST_LOG)))
}

fn read_from(log: &Path, from: u64) -> std::io::Result<Vec<u8>> {
    // With `NONBLOCK`, opening a leased file fails instead of blocking.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(flags).open(log)?;
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
        let opened = Directory::open(directory.path()).unwrap();
        let read = |known: &[MetadataItem]| dated(read_items(&opened).unwrap(), known);
        let put = |key: &str, value: &str| std::fs::write(directory.path().join(key), value).unwrap();
        put("fleet_mcp_branch", "main\n");
        put("fleet_mcp_long", &"x".repeat(3_000));
        put("fleet_mcp_half.tmp", "being written");
        put("other", "not ours");
        let first = read(&[]);
        let shown: Vec<(&str, usize, &str)> =
            first.iter().map(|item| (item.key.as_str(), item.value.len(), item.error.as_str())).collect();
        let error = "value of 3000 bytes exceeded 2048 bytes";
        assert_eq!(shown, [("fleet_mcp_branch", 4, ""), ("fleet_mcp_long", 2_048, error)]);
        assert_eq!(read(&first), first);
        put("fleet_mcp_branch", "other");
        assert_ne!(read(&first)[0].collected_at, first[0].collected_at);
    }

    #[test]
    fn an_agent_shows_a_hundred_keys_and_those_that_the_fleet_reads_among_them() {
        let directory = tempfile::tempdir().unwrap();
        let put = |key: &str, value: &str| std::fs::write(directory.path().join(key), value).unwrap();
        for number in 0..200 {
            put(&format!("fleet_mcp_{number:03}"), &"x".repeat(2_000));
        }
        put("fleet_mcp_usage", "{}");
        let items = read_items(&Directory::open(directory.path()).unwrap()).unwrap();
        let n_bytes: usize = items.iter().map(|item| item.key.len() + item.value.len()).sum();
        let n_whole = items.iter().filter(|item| item.error.is_empty()).count();
        assert_eq!((items.len(), n_whole, items.last().unwrap().key.as_str()), (100, 33, "fleet_mcp_usage"));
        assert!(n_bytes <= MOST_BYTES + MOST_KEYS * 20, "{n_bytes}");
        let error = "all metadata of this agent together exceeded 65536 bytes";
        assert_eq!((items[50].value.as_str(), items[50].error.as_str()), ("", error));
    }

    /// A process that holds a lease on the file and does not release it; none without perl.
    fn leased(log: &Path) -> Option<std::process::Child> {
        let script = "open F, '+<', $ARGV[0]; $SIG{IO} = 'IGNORE'; fcntl(F, 1024, 1) or exit 3; \
                      $| = 1; print \"held\\n\"; sleep 100";
        let mut command = std::process::Command::new("perl");
        command.args(["-e", script]).arg(log).stdout(std::process::Stdio::piped());
        let mut holder = command.spawn().ok()?;
        let mut line = [0; 5];
        holder.stdout.take().unwrap().read_exact(&mut line).unwrap();
        Some(holder)
    }

    #[test]
    fn a_lease_on_a_log_holds_up_neither_its_reader_nor_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "earlier\n").unwrap();
        let Some(mut holder) = leased(&log) else { return };
        let begun_at = std::time::Instant::now();
        let read = read_log(&log, 0);
        let mut fresh = begin_log(&log).unwrap();
        std::io::Write::write_all(&mut fresh, b"fresh\n").unwrap();
        let is_soon = begun_at.elapsed() < std::time::Duration::from_secs(10);
        holder.kill().and_then(|()| holder.wait()).unwrap();
        let texts = (read_log(&log, 0), read_log(&log.with_added_extension("old"), 0));
        let expected = ("fresh\n".to_owned(), "earlier\n".to_owned());
        assert_eq!((read.as_str(), texts, is_soon), ("", expected, true));
    }

    #[test]
    fn each_start_begins_a_log_that_only_its_owner_reads_and_keeps_the_one_before() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        for text in ["one", "two", "three"] {
            std::io::Write::write_all(&mut begin_log(&log).unwrap(), text.as_bytes()).unwrap();
        }
        let mode = log.metadata().unwrap().permissions().mode() & 0o777;
        let texts = (read_log(&log, 0), read_log(&log.with_added_extension("old"), 0));
        assert_eq!((texts, mode), (("three".to_owned(), "two".to_owned()), 0o600));
    }
}
