//! Claude Code: its user scope, which is a part of the file where it keeps its state.

use super::entry::{Entry, Server, command_fields, header_field, text};
use super::json_text::Comments;
use super::{McpClient, Syntax};

pub(super) const CLIENT: McpClient = McpClient {
    word: "claude",
    title: "Claude Code",
    program: "claude",
    directory: |places| places.variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| places.home().join(".claude")),
    file: |places| {
        let directory = places.variable("CLAUDE_CONFIG_DIR");
        directory.unwrap_or_else(|| places.home().to_owned()).join(".claude.json")
    },
    syntax: Syntax::Json { section: "mcpServers", comments: Comments::Refused },
    entry: |server| {
        let (fields, obsolete): (Vec<_>, &[&str]) = match server {
            Server::Stdio { program, arguments } => {
                let typed = std::iter::once(("type", text("stdio")));
                (typed.chain(command_fields(program, arguments)).collect(), &["url", "headers"])
            }
            Server::Http { url, token } => (
                vec![("type", text("http")), ("url", text(url.as_str())), header_field("headers", token)],
                &["command", "args"],
            ),
        };
        Some(Entry { fields, obsolete })
    },
    takes_effect: "a new session of Claude Code has the tools; /mcp shows them",
};
