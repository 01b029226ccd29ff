//! Visual Studio Code: the servers of the user's default profile.

use std::path::PathBuf;

use super::entry::Entry;
use super::in_json::Comments;
use super::settings_paths::SettingsPaths;
use super::{McpClient, Syntax};

pub(super) const CLIENT: McpClient = McpClient {
    word: "vscode",
    title: "VS Code",
    program: "code",
    directory: user_data,
    file: |paths| user_data(paths).join("User").join("mcp.json"),
    syntax: Syntax::Json { section: "servers", comments: Comments::Kept },
    entry: |server| Some(Entry::typed(server)),
    takes_effect: "trust the server in VS Code to use the tools in agent mode",
};

/// A portable installation keeps its settings beside the program.
fn user_data(paths: &SettingsPaths) -> PathBuf {
    let portable = paths.variable("VSCODE_PORTABLE").map(|portable| portable.join("user-data"));
    portable.unwrap_or_else(|| paths.applications().join("Code"))
}
