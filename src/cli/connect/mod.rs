//! `connect`: adds this fleet to the configuration of an MCP client, and keeps everything else in it.

mod claude;
mod claude_desktop;
mod codex;
mod cursor;
mod entry;
mod file;
mod http;
mod in_json;
mod in_toml;
mod installed;
mod settings_paths;
mod vscode;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::{Format, Screen};
use crate::domain::provision::CLIENT_SERVER;
use entry::{Entry, Secrecy, Server};
use file::{ClientFile, Saved};
pub(super) use installed::{Installed, installed};
use settings_paths::SettingsPaths;

/// Our name in the configuration of clients.
const NAME: &str = CLIENT_SERVER;

#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// The client to connect
    client: ClientWord,
    /// Connect by HTTP with a new manager token, instead of starting 'fleet-mcp stdio'
    #[arg(long, conflicts_with = "remove")]
    http: bool,
    /// Print the entry for the client's file and write nothing
    #[arg(long, conflicts_with = "remove")]
    print: bool,
    /// Remove the fleet from the client's file
    #[arg(long)]
    remove: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClientWord {
    Claude,
    ClaudeDesktop,
    Codex,
    Cursor,
    Vscode,
}

/// The description of one MCP client.
#[derive(Debug)]
struct McpClient {
    word: &'static str,
    title: &'static str,
    /// The name of its program on the PATH, if it has one.
    program: &'static str,
    /// Its own directory, which exists if it was ever used.
    directory: fn(&SettingsPaths) -> PathBuf,
    /// The user's own configuration file, never a project's.
    file: fn(&SettingsPaths) -> PathBuf,
    syntax: Syntax,
    /// None for a transport that this client does not support.
    entry: fn(&Server) -> Option<Entry>,
    /// When the client reads the file.
    takes_effect: &'static str,
}

/// The syntax of the file, and its key for servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json { section: &'static str, comments: in_json::Comments },
    Toml { section: &'static str },
}

/// Why a file's text is not changed: the position, and the text there.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    line: usize,
    problem: String,
}

const CLIENTS: [&McpClient; 5] =
    [&claude::CLIENT, &claude_desktop::CLIENT, &codex::CLIENT, &cursor::CLIENT, &vscode::CLIENT];

pub(super) async fn run(globals: &Globals, args: ConnectArgs, screen: &Screen) -> Result<Exit, CliError> {
    let client = client_of(args.client);
    let path = (client.file)(&SettingsPaths::of_process()?);
    if args.remove {
        return remove(client, &ClientFile::new(&path), screen);
    }
    if args.print {
        return print(client, &path, &server_to_show(globals, args.http)?, screen);
    }
    let server = if args.http { http::server(globals, client, &path).await? } else { stdio_server(globals)? };
    put(client, &ClientFile::new(&path), &server, screen)
}

fn put(client: &McpClient, file: &ClientFile, server: &Server, screen: &Screen) -> Result<Exit, CliError> {
    let entry = entry_of(client, server)?;
    let saved = file.change(server.secrecy(), |text| client.syntax.with(text, &entry))?;
    let message = match saved {
        Saved::Changed => format!("{} is connected through {}", client.title, file.path().display()),
        Saved::Unchanged => {
            format!("{} was already connected through {}", client.title, file.path().display())
        }
    };
    print_result(&FileChange { client, file, saved, message }, screen)?;
    if saved == Saved::Changed {
        screen.hint(client.takes_effect);
    }
    Ok(Exit::Ok)
}

fn remove(client: &McpClient, file: &ClientFile, screen: &Screen) -> Result<Exit, CliError> {
    let entry = client.syntax.found(&file.read()?).map_err(|refusal| file.refused(refusal))?;
    let saved = file.change(Secrecy::Open, |text| client.syntax.without(text))?;
    let message = match saved {
        Saved::Changed => {
            format!("{} is no longer connected through {}", client.title, file.path().display())
        }
        Saved::Unchanged => format!("{} was not connected through {}", client.title, file.path().display()),
    };
    print_result(&FileChange { client, file, saved, message }, screen)?;
    if entry.as_deref().and_then(http::token_in).is_some() {
        let name = http::token_name(client);
        screen.hint(&format!(
            "its token is still valid: 'fleet-mcp token list' shows it as {name}; revoke it with 'fleet-mcp \
            token revoke'"
        ));
    }
    Ok(Exit::Ok)
}

fn print(client: &McpClient, path: &Path, server: &Server, screen: &Screen) -> Result<Exit, CliError> {
    let text = client.syntax.alone(&entry_of(client, server)?);
    screen.hint(&format!("the entry for {}:", path.display()));
    screen.line(text.trim_end())?;
    Ok(Exit::Ok)
}

/// The change of a file, to be reported.
struct FileChange<'a> {
    client: &'a McpClient,
    file: &'a ClientFile,
    saved: Saved,
    message: String,
}

fn print_result(change: &FileChange<'_>, screen: &Screen) -> Result<(), CliError> {
    let changed = change.saved == Saved::Changed;
    let file = change.file.path().display().to_string();
    match screen.format {
        Format::Json => {
            screen.json(&json!({ "client": change.client.word, "file": file, "changed": changed }))
        }
        Format::People => screen.line(&change.message),
    }
}

fn entry_of(client: &McpClient, server: &Server) -> Result<Entry, CliError> {
    (client.entry)(server).ok_or_else(|| {
        let message = format!("{} cannot be connected by HTTP through its file", client.title);
        CliError::usage(message, format!("Run 'fleet-mcp connect {}' without --http.", client.word))
    })
}

/// The bridge, started with this very program; the data directory is included only if it is not the default one.
fn stdio_server(globals: &Globals) -> Result<Server, CliError> {
    if globals.url.is_some() {
        let message = "a server chosen with --url can only be reached by HTTP";
        return Err(CliError::usage(message, "Add --http."));
    }
    let mut arguments = vec!["stdio".to_owned()];
    arguments.extend(globals.own_arguments()?);
    Ok(Server::Stdio { program: super::own_program()?, arguments })
}

/// A token is created only for a file that is written.
fn server_to_show(globals: &Globals, http: bool) -> Result<Server, CliError> {
    if http { http::server_without_token(globals) } else { stdio_server(globals) }
}

fn client_of(word: ClientWord) -> &'static McpClient {
    match word {
        ClientWord::Claude => &claude::CLIENT,
        ClientWord::ClaudeDesktop => &claude_desktop::CLIENT,
        ClientWord::Codex => &codex::CLIENT,
        ClientWord::Cursor => &cursor::CLIENT,
        ClientWord::Vscode => &vscode::CLIENT,
    }
}

impl Syntax {
    /// The file's text with our entry.
    fn with(self, text: &str, entry: &Entry) -> Result<String, Refusal> {
        match self {
            Self::Json { section, comments } => in_json::with(text, comments, section, entry),
            Self::Toml { section } => in_toml::with(text, section, entry),
        }
    }

    /// The file's text without our entry.
    fn without(self, text: &str) -> Result<String, Refusal> {
        match self {
            Self::Json { section, comments } => in_json::without(text, comments, section),
            Self::Toml { section } => in_toml::without(text, section),
        }
    }

    /// Our current entry in the file's text.
    fn found(self, text: &str) -> Result<Option<String>, Refusal> {
        match self {
            Self::Json { section, comments } => in_json::found(text, comments, section),
            Self::Toml { section } => in_toml::found(text, section),
        }
    }

    /// A file with only our entry.
    fn alone(self, entry: &Entry) -> String {
        // An empty text cannot be malformed.
        self.with("", entry).unwrap_or_default()
    }
}
