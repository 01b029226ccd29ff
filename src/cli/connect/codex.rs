//! Codex: a table of its settings, with the approval mode and the timeout that our tools need.

use super::entry::{Entry, Field, Server, command_fields, header_field, text};
use super::{McpClient, Syntax};

/// Waits and runs take longer than its default of five minutes.
const TOOL_TIMEOUT_SECONDS: i64 = 600;

pub(super) const CLIENT: McpClient = McpClient {
    word: "codex",
    title: "Codex",
    program: "codex",
    directory: |paths| paths.variable("CODEX_HOME").unwrap_or_else(|| paths.home().join(".codex")),
    file: |paths| (CLIENT.directory)(paths).join("config.toml"),
    syntax: Syntax::Toml { section: "mcp_servers" },
    entry: |server| {
        let (mut fields, obsolete): (Vec<_>, &[&str]) = match server {
            Server::Stdio { program, arguments } => {
                (command_fields(program, arguments).into(), &["url", "http_headers"])
            }
            Server::Http { url, token } => {
                (vec![("url", text(url.as_str())), header_field("http_headers", token)], &["command", "args"])
            }
        };
        // Without this setting it refuses every changing tool in non-interactive runs.
        fields.push(("default_tools_approval_mode", text("approve")));
        fields.push(("tool_timeout_sec", Field::Number(TOOL_TIMEOUT_SECONDS)));
        Some(Entry { fields, obsolete })
    },
    takes_effect: "start a new session of Codex to use the tools; /mcp shows them",
};
