//! Input and variables of a command: in no command line, and in no file that others can read.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fleet_mcp::coder::exec::Offsets;
use futures_util::StreamExt;

use super::{address, sh};
use crate::contract::agent_id;
use crate::harness::LocalSite;

const CANARY: &str = "canary-input-and-variables";

/// Command lines of all processes that hold the text.
fn command_lines(text: &str) -> Vec<String> {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    lines.filter(|line| line.contains(text)).collect()
}

/// Everything below that its owner does not have alone.
fn open_to_others(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        if metadata.mode() & 0o077 != 0 {
            found.push(entry.path().display().to_string());
        }
        if metadata.is_dir() {
            open_to_others(&entry.path(), found);
        }
    }
}

#[tokio::test]
async fn secrets_of_a_command_stay_out_of_command_lines_and_open_files() {
    let site = LocalSite::new();
    let local = site.start().await;
    let client = local.client();
    let agent = agent_id(&local.create_ready("one").await);
    let at = address(agent);
    let mut command = sh("echo ready; cat >/dev/null; sleep 300");
    command.stdin = CANARY.into();
    command.env.push(("SECRET".to_owned(), CANARY.to_owned()));
    client.run_start(agent, at.run, &command).await.unwrap();
    let mut events = std::pin::pin!(client.run_follow(&at, Offsets::default()));
    events.next().await.unwrap().unwrap();
    assert_eq!(command_lines(CANARY), Vec::<String>::new());
    let mut found = Vec::new();
    open_to_others(&site.workspace("one").join("runs"), &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert!(!format!("{command:?}").contains(CANARY));
    client.run_cancel(&at).await.unwrap();
    local.coder.stop().await;
}
