//! Claude Code: its user scope, a part of the file in which it keeps its state.

use super::entry::Entry;
use super::in_json::Comments;
use super::{McpClient, Syntax};

pub(super) const CLIENT: McpClient = McpClient {
    word: "claude",
    title: "Claude Code",
    program: "claude",
    directory: |paths| paths.variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| paths.home().join(".claude")),
    file: |paths| {
        let directory = paths.variable("CLAUDE_CONFIG_DIR");
        directory.unwrap_or_else(|| paths.home().to_owned()).join(".claude.json")
    },
    syntax: Syntax::Json { section: "mcpServers", comments: Comments::Refused },
    entry: |server| Some(Entry::typed(server)),
    takes_effect: "start a new session of Claude Code to use the tools; /mcp shows them",
};
