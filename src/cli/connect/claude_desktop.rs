//! Claude Desktop: its developer settings, which support only programs to start.

use super::entry::{Entry, Server};
use super::in_json::Comments;
use super::{McpClient, Syntax};

pub(super) const CLIENT: McpClient = McpClient {
    word: "claude-desktop",
    title: "Claude Desktop",
    program: "claude-desktop",
    directory: |paths| paths.applications().join("Claude"),
    file: |paths| paths.applications().join("Claude").join("claude_desktop_config.json"),
    syntax: Syntax::Json { section: "mcpServers", comments: Comments::Refused },
    entry: |server| match server {
        Server::Stdio { .. } => Some(Entry::plain(server)),
        Server::Http { .. } => None,
    },
    takes_effect: "quit Claude Desktop and open it again to use the tools",
};
