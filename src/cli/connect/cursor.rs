//! Cursor: the servers of all its projects.

use super::entry::{Entry, Server, command_fields, header_field, text};
use super::json_text::Comments;
use super::{McpClient, Syntax};

pub(super) const CLIENT: McpClient = McpClient {
    word: "cursor",
    title: "Cursor",
    program: "cursor",
    directory: |places| places.home().join(".cursor"),
    file: |places| places.home().join(".cursor").join("mcp.json"),
    syntax: Syntax::Json { section: "mcpServers", comments: Comments::Kept },
    entry: |server| {
        let (fields, obsolete): (Vec<_>, &[&str]) = match server {
            Server::Stdio { program, arguments } => {
                (command_fields(program, arguments).into(), &["url", "headers"])
            }
            Server::Http { url, token } => {
                (vec![("url", text(url.as_str())), header_field("headers", token)], &["command", "args"])
            }
        };
        Some(Entry { fields, obsolete })
    },
    takes_effect: "Cursor has the tools once the server is switched on in its settings",
};
