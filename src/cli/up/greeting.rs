//! The output of `up`: engine, address, one line per MCP client, one command to try.

use std::fmt::Write;
use std::path::PathBuf;

use anstyle::Style;
use serde_json::{Value, json};

use super::{AgentHost, Demo, EngineProgram};
use crate::cli::connect::Installed;
use crate::cli::server_file::ServerFile;
use crate::domain::text::printable;

const TRY_HERE: &str =
    "agents create --project setup --spec 'Write a haiku about this machine into HAIKU.md'";
/// Agents of the embedded Coder run as this user, whatever the isolation.
const AGENTS_HERE: &str = "run on this machine as you, and can read your home directory and your keys";
const TRY_ON_CODER: &str = "projects";
/// If agents are at work already, the suggestion is to watch them.
const TRY_DEMO: &str = "agents list --watch";

/// The content of the greeting.
pub(super) struct Greeting<'a> {
    pub(super) host: &'a AgentHost,
    pub(super) demo: Demo,
    pub(super) server: ServerFile,
    pub(super) data_directory: PathBuf,
    /// This program, and the options that select this server.
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) clients: Vec<Installed>,
}

impl Greeting<'_> {
    /// For people. Only weight is used, no colours, and only on a terminal.
    pub(super) fn text(&self) -> String {
        let bold = Style::new().bold();
        let url = self.server.url.as_str().trim_end_matches('/');
        let mut text =
            format!("\n{bold}fleet-mcp {} is up{bold:#} at {bold}{url}{bold:#}\n\n", self.server.version);
        for (label, value) in self.facts() {
            let faint = Style::new().dimmed();
            // Writing to a String is infallible.
            let _written = writeln!(text, "  {faint}{label:<8}{faint:#} {}", printable(&value));
        }
        let _written = writeln!(text, "\n{bold}Connect a client{bold:#}\n{}", self.connect_lines());
        let _written = writeln!(text, "{bold}Try{bold:#}\n  {}\n\n{}", self.trial(), self.farewell());
        text
    }

    pub(super) fn json(&self) -> Value {
        let connect = self.clients.iter().map(|client| (client.word.to_owned(), json!(self.connect(client))));
        json!({
            "url": self.server.url,
            "mcp_url": self.server.mcp_url,
            "pid": self.server.pid,
            "version": self.server.version,
            "data_dir": self.data_directory,
            "engine": self.engine_word(),
            "engine_version": self.engine_version(),
            "coder_url": self.coder(),
            "connect": connect.collect::<serde_json::Map<_, _>>(),
            "try": self.trial(),
        })
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        facts.extend(self.engine().map(|engine| ("engine", engine)));
        match self.host {
            AgentHost::Here { .. } => facts.push(("agents", AGENTS_HERE.to_owned())),
            AgentHost::Coder { url } => facts.push(("agents", format!("in workspaces of {url}"))),
        }
        facts.push(("mcp", self.server.mcp_url.to_string()));
        facts.push(("data", self.data_directory.display().to_string()));
        facts
    }

    fn engine(&self) -> Option<String> {
        let AgentHost::Here { engine, program } = self.host else { return None };
        Some(match program {
            EngineProgram::Own { instead } => {
                let real = instead.map_or("install claude or codex to run real agents".to_owned(), |word| {
                    format!("use --engine {word} to run real agents")
                });
                format!("demo: scripted agents that need no account; {real}")
            }
            EngineProgram::Found { program, version, wanted } => {
                let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
                format!("{engine}{version} ({}){}", program.display(), too_old(*wanted))
            }
            EngineProgram::Missing(name) => {
                format!("{engine}, but no program '{name}' is on the PATH: install it, or use --engine demo")
            }
            EngineProgram::Custom => engine.clone(),
        })
    }

    fn engine_word(&self) -> Option<&str> {
        match self.host {
            AgentHost::Here { engine, .. } => Some(engine),
            AgentHost::Coder { .. } => None,
        }
    }

    fn engine_version(&self) -> Option<&str> {
        match self.host {
            AgentHost::Here { program: EngineProgram::Found { version, .. }, .. } => version.as_deref(),
            AgentHost::Here { .. } | AgentHost::Coder { .. } => None,
        }
    }

    fn coder(&self) -> Option<&str> {
        match self.host {
            AgentHost::Here { .. } => None,
            AgentHost::Coder { url } => Some(url.as_str()),
        }
    }

    fn connect_lines(&self) -> String {
        if self.clients.is_empty() {
            return format!("  no client found; to connect one later: {}\n", self.command("connect --help"));
        }
        let commands: Vec<String> = self.clients.iter().map(|client| self.connect(client)).collect();
        let width = commands.iter().map(|command| command.chars().count()).max().unwrap_or_default();
        let lines = commands.iter().zip(&self.clients);
        lines.map(|(command, client)| format!("  {command:<width$}  # {}\n", client.title)).collect()
    }

    fn connect(&self, client: &Installed) -> String {
        self.command(&format!("connect {}", client.word))
    }

    fn trial(&self) -> String {
        match (self.host, self.demo) {
            (_, Demo::Wanted) => self.command(TRY_DEMO),
            (AgentHost::Here { .. }, Demo::Unwanted) => self.command(TRY_HERE),
            (AgentHost::Coder { .. }, Demo::Unwanted) => self.command(TRY_ON_CODER),
        }
    }

    fn farewell(&self) -> &'static str {
        match self.host {
            AgentHost::Here { .. } => "Ctrl-C stops the server and its agents; the next 'up' resumes them.",
            AgentHost::Coder { .. } => "Ctrl-C stops the server; agents keep running.",
        }
    }

    /// A command line of ours that can be copied.
    fn command(&self, rest: &str) -> String {
        let ours = std::iter::once(self.program.display().to_string()).chain(self.arguments.iter().cloned());
        let ours: Vec<String> = ours.map(|word| quoted(&word)).collect();
        format!("{} {rest}", ours.join(" "))
    }
}

/// The warning about a version with which every task would fail.
fn too_old(wanted: Option<[u32; 2]>) -> String {
    wanted.map_or(String::new(), |[major, minor]| {
        format!(": too old, update it to {major}.{minor} or later, or use --engine demo")
    })
}

/// Printed when the server stops.
pub(super) fn stopping(host: &AgentHost) -> &'static str {
    match host {
        AgentHost::Here { .. } => "stopping the server and its agents",
        AgentHost::Coder { .. } => "stopping the server; agents keep running",
    }
}

/// Quotes text as one word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
#[path = "greeting_tests.rs"]
mod tests;
