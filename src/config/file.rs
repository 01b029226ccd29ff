//! The shape of the settings file; flags and the environment use the same keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// The whole file. Unknown keys are refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Merged {
    pub(super) server: Server,
    pub(super) coder: Coder,
    pub(super) fleet: Fleet,
    pub(super) agents: Agents,
    pub(super) log: Log,
    pub(super) store: Store,
    pub(super) mcp: Mcp,
    pub(super) squads: Squads,
    pub(super) runs: Runs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) bind: String,
    pub(super) port: u16,
    pub(super) public_url: Option<String>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    /// TLS is terminated by a proxy: listening beyond loopback is then permitted.
    pub(super) behind_tls: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Coder {
    pub(super) url: Option<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) parallel_builds: usize,
    pub(super) poll_interval_ms: u64,
    pub(super) requests_per_minute: u32,
    pub(super) build_timeout_seconds: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fleet {
    pub(super) stuck_after_minutes: u32,
    pub(super) roles_dir: Option<PathBuf>,
    pub(super) projects_dir: Option<PathBuf>,
}

/// Limits on the spending and access of each agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Agents {
    pub(super) max_cost_usd: Option<f64>,
    pub(super) max_tokens: Option<u64>,
    /// Embedded agents start even if they can be isolated less than before.
    pub(super) allow_less_isolation: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    pub(super) level: String,
    pub(super) format: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    pub(super) path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mcp {
    pub(super) toolsets: Vec<String>,
    /// The longest that a blocking tool may wait.
    pub(super) tool_timeout_ms: Option<u64>,
}

/// Settings of squads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Squads {
    pub(super) state_mode: String,
    /// Default: parallel, unless the engine runs one at a time.
    pub(super) execution_mode: Option<String>,
    pub(super) sequential_delay_ms: u64,
    pub(super) process_timeout_ms: u64,
    pub(super) run_template: Option<PathBuf>,
    pub(super) create_chat_template: Option<PathBuf>,
    /// Additional variables for templates.
    pub(super) values: BTreeMap<String, String>,
}

/// Settings of squads without a given agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runs {
    pub(super) project: Option<String>,
}

/// Every default in one place, in the format of a settings file.
pub(super) const DEFAULTS: &str = r#"
[server]
bind = "127.0.0.1"
port = 3001
allowed_hosts = []
allowed_origins = []
behind_tls = false

[coder]
parallel_builds = 3
poll_interval_ms = 1000
requests_per_minute = 400
build_timeout_seconds = 900

[fleet]
stuck_after_minutes = 30

[agents]
allow_less_isolation = false

[log]
level = "info"
format = "text"

[store]

[mcp]
toolsets = []

[squads]
state_mode = "stateless"
sequential_delay_ms = 0
process_timeout_ms = 600000

[squads.values]

[runs]
"#;
