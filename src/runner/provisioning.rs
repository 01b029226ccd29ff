//! Reads what the control plane provisions for an agent: its role, its access to the fleet, and the start it is
//! for.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::files;
use super::options::Options;

use crate::domain::provision::{MCP_FILE, ROLE_FILE, TOKEN_FILE};
use crate::engine::{FleetAccess, RolePrompt};
use crate::files::regular;

/// The role as provisioned; before that, as set when the workspace was created.
const ROLES: [&str; 2] = [ROLE_FILE, "system_prompt"];
const CONFIG_TOML: &str = "config.toml";
/// Written last: if it has this generation, all other files are complete.
const PROVISIONED: &str = "provisioned.json";
/// The role's name, as set when the workspace was created.
const ROLE_NAME: &str = "metadata/fleet_mcp_role";
const REVIEWER: &str = "reviewer";
/// Written by the first runner of a start without a number.
const START: &str = "start";
/// How much earlier than the runner the control plane may write: both wait for the same workspace.
const HEAD_START: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize)]
struct Provisioned {
    generation: u64,
}

/// The start of the workspace: files of an earlier start are useless, since their token is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Numbered(u64),
    /// The number is unknown, as on a real Coder, which numbers builds but does not pass the number on.
    Since(SystemTime),
    /// Starts cannot be distinguished: existing files count.
    Any,
}

impl Start {
    pub(super) fn of(options: &Options) -> Self {
        match (options.generation, &options.coder) {
            (0, None) => Self::Any,
            (0, Some(coder)) => since(&options.directory, &coder.agent_token).map_or(Self::Any, Self::Since),
            (number, _) => Self::Numbered(number),
        }
    }
}

/// The time of this start's first runner; Coder gives a workspace another token at each start.
fn since(directory: &Path, token: &SecretString) -> io::Result<SystemTime> {
    let (path, mark) = (directory.join(START), Sha256::digest(token.expose_secret().as_bytes()));
    let mark: String = mark.iter().map(|byte| format!("{byte:02x}")).collect();
    if text(&path).as_ref() != Some(&mark) {
        files::replace(directory, START, &mark)?;
    }
    std::fs::metadata(&path)?.modified()
}

/// Waits until the files of this start are complete, up to a limit.
pub(super) async fn wait(directory: &Path, start: Start, limit: Duration, poll: Duration) {
    let arrival = async {
        while !is_complete(directory, start) {
            tokio::time::sleep(poll).await;
        }
    };
    // Whether they came in time is checked by the next reader.
    let _late = tokio::time::timeout(limit, arrival).await;
}

/// The access to the fleet; none while only files of an earlier start exist, whose token is dead.
pub(super) fn fleet(directory: &Path, start: Start) -> Option<FleetAccess> {
    if !is_complete(directory, start) {
        return None;
    }
    let token = directory.join(TOKEN_FILE);
    text(&token)?;
    Some(FleetAccess {
        mcp_json: directory.join(MCP_FILE),
        config_toml: text(&directory.join(CONFIG_TOML)).unwrap_or_default(),
        token,
    })
}

pub(super) fn role(directory: &Path) -> Option<RolePrompt> {
    ROLES.iter().find_map(|name| {
        let file = directory.join(name);
        Some(RolePrompt { text: text(&file)?, file })
    })
}

pub(super) fn is_review(directory: &Path) -> bool {
    text(&directory.join(ROLE_NAME)).is_some_and(|name| name.trim() == REVIEWER)
}

fn is_complete(directory: &Path, start: Start) -> bool {
    let path = directory.join(PROVISIONED);
    let Some(provisioned) = text(&path).and_then(|text| serde_json::from_str::<Provisioned>(&text).ok())
    else {
        return false;
    };
    match start {
        Start::Numbered(generation) => provisioned.generation == generation,
        Start::Since(since) => {
            let written = std::fs::metadata(&path).and_then(|known| known.modified());
            written.is_ok_and(|written| written + HEAD_START >= since)
        }
        Start::Any => true,
    }
}

fn text(path: &Path) -> Option<String> {
    regular::text(path).ok().filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_earlier_start_give_no_access() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        put(TOKEN_FILE, "secret\n");
        put(CONFIG_TOML, "[mcp_servers.fleet_agent]\n");
        let access = |generation| fleet(directory.path(), Start::Numbered(generation));
        assert!(access(3).is_none());
        put(PROVISIONED, r#"{"generation":2,"at":"2026-11-16T00:00:00Z","callback":"direct"}"#);
        assert!(access(3).is_none());
        put(PROVISIONED, r#"{"generation":3}"#);
        let found = access(3).unwrap();
        assert_eq!(
            (found.token, found.config_toml.as_str()),
            (directory.path().join(TOKEN_FILE), "[mcp_servers.fleet_agent]\n")
        );
        assert!(fleet(directory.path(), Start::Any).is_some());
    }

    #[test]
    fn without_a_number_a_start_is_known_by_its_token_and_what_came_long_before_it_gives_no_access() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        put(TOKEN_FILE, "secret\n");
        put(PROVISIONED, r#"{"generation":2}"#);
        let start_of = |token: &str| since(directory.path(), &SecretString::from(token)).unwrap();
        let first = start_of("one");
        assert_eq!(start_of("one"), first, "a runner that comes again");
        let access = |since| fleet(directory.path(), Start::Since(since)).is_some();
        assert_eq!([access(first), access(first + HEAD_START * 2)], [true, false]);
        start_of("two");
        let mark = std::fs::read_to_string(directory.path().join(START)).unwrap();
        assert_eq!((mark.len(), mark.contains("two")), (64, false), "the token itself is not written");
    }

    #[test]
    fn the_role_file_takes_precedence_over_the_system_prompt() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        assert_eq!(role(directory.path()), None);
        put("system_prompt", "You write code.");
        assert_eq!(role(directory.path()).unwrap().text, "You write code.");
        put("role.md", "You write tests.");
        assert_eq!(role(directory.path()).unwrap().file, directory.path().join("role.md"));
    }
}
