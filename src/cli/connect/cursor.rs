//! Cursor: the servers of all its projects.

use super::entry::Entry;
use super::in_json::Comments;
use super::{McpClient, Syntax};

pub(super) const CLIENT: McpClient = McpClient {
    word: "cursor",
    title: "Cursor",
    program: "cursor",
    directory: |paths| paths.home().join(".cursor"),
    file: |paths| paths.home().join(".cursor").join("mcp.json"),
    syntax: Syntax::Json { section: "mcpServers", comments: Comments::Kept },
    entry: |server| Some(Entry::plain(server)),
    takes_effect: "enable the server in the settings of Cursor to use the tools",
};
