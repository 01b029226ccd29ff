//! What the control plane leaves for an agent: who it is, how it reaches the fleet, and since when.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::domain::provision::{MCP_FILE, ROLE_FILE, TOKEN_FILE};
use crate::engine::{FleetAccess, RolePrompt};

/// The role as the control plane wrote it; before that, as the workspace was made with it.
const ROLES: [&str; 2] = [ROLE_FILE, "system_prompt"];
const CONFIG_TOML: &str = "config.toml";
/// Written last: with this generation in it, everything else is there.
const PROVISIONED: &str = "provisioned.json";
/// The role's name, as the workspace was made with it.
const ROLE_NAME: &str = "metadata/fleet_mcp_role";
const REVIEWER: &str = "reviewer";
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Deserialize)]
struct Provisioned {
    generation: u64,
}

/// Waits until all is there for this start of the workspace, but no longer than this.
pub(super) async fn wait(directory: &Path, generation: u64, patience: Duration) {
    let arrival = async {
        while !is_complete(directory, generation) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    // Whether it came in time is seen by whoever reads it next.
    let _late = tokio::time::timeout(patience, arrival).await;
}

/// How to reach the fleet; none while only files of an earlier start are there, whose token is dead.
pub(super) fn fleet(directory: &Path, generation: u64) -> Option<FleetAccess> {
    if !is_complete(directory, generation) {
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

/// A runner that was not told its generation takes what there is.
fn is_complete(directory: &Path, generation: u64) -> bool {
    let told =
        text(&directory.join(PROVISIONED)).and_then(|text| serde_json::from_str::<Provisioned>(&text).ok());
    told.is_some_and(|told| generation == 0 || told.generation == generation)
}

fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_earlier_start_give_no_access() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        put(TOKEN_FILE, "secret\n");
        put(CONFIG_TOML, "[mcp_servers.fleet]\n");
        let access = |generation| fleet(directory.path(), generation);
        assert!(access(3).is_none());
        put(PROVISIONED, r#"{"generation":2,"at":"2026-11-16T00:00:00Z","callback":"direct"}"#);
        assert!(access(3).is_none());
        put(PROVISIONED, r#"{"generation":3}"#);
        let found = access(3).unwrap();
        assert_eq!(
            (found.token, found.config_toml.as_str()),
            (directory.path().join(TOKEN_FILE), "[mcp_servers.fleet]\n")
        );
        assert!(access(0).is_some());
    }

    #[test]
    fn the_role_is_what_was_written_last_by_whoever_knows_best() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        assert_eq!(role(directory.path()), None);
        put("system_prompt", "You write code.");
        assert_eq!(role(directory.path()).unwrap().text, "You write code.");
        put("role.md", "You write tests.");
        assert_eq!(role(directory.path()).unwrap().file, directory.path().join("role.md"));
    }
}
