//! Visual Studio Code: the servers of the user's default profile.

use std::path::PathBuf;

use super::entry::{Entry, Server, command_fields, header_field, text};
use super::json_text::Comments;
use super::places::Places;
use super::{McpClient, Syntax};

pub(super) const CLIENT: McpClient = McpClient {
    word: "vscode",
    title: "VS Code",
    program: "code",
    directory: user_data,
    file: |places| user_data(places).join("User").join("mcp.json"),
    syntax: Syntax::Json { section: "servers", comments: Comments::Kept },
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
    takes_effect: "VS Code has the tools in agent mode once you trust the server",
};

/// A portable installation keeps everything beside itself.
fn user_data(places: &Places) -> PathBuf {
    let portable = places.variable("VSCODE_PORTABLE").map(|portable| portable.join("user-data"));
    portable.unwrap_or_else(|| places.applications().join("Code"))
}
