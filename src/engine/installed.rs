//! Finds the CLI of an engine on this machine, and asks it whether it is one we can work with.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;

use super::codex::{Codex, Sandbox};
use super::custom::Custom;
use super::found::{CLIS, found};
use super::template::{TemplateError, Values};
use super::{Engine, EngineWord, claude, codex, demo};

/// Long enough for a CLI that is started for the first time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// This binary: the demo engine is a part of it.
    pub own_program: PathBuf,
    /// The directories of programs, as in PATH.
    pub path: OsString,
    pub codex_home: PathBuf,
    pub run_template: Option<PathBuf>,
    pub create_chat_template: Option<PathBuf>,
}

/// Why an engine cannot be used here; each names what to do.
#[derive(Debug, Error)]
pub enum Unavailable {
    #[error("neither claude nor codex is installed here; install one of them, or use --engine demo")]
    Nothing,
    #[error("{word} is not installed here; install it, or use --engine demo")]
    Missing { word: EngineWord },
    #[error(
        "{word} {} is too old; update it to {} or later, or use --engine demo",
        dotted(*found), dotted(*wanted)
    )]
    TooOld { word: EngineWord, found: [u32; 2], wanted: [u32; 2] },
    #[error("{word} does not report its version ({reason}); install it again, or use --engine demo")]
    Mute { word: EngineWord, reason: String },
    #[error("set RUN_TEMPLATE_PATH to the template of the custom engine, or use --engine demo")]
    NoTemplate,
    #[error("the template {} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{origin}: {source}")]
    Template {
        origin: String,
        #[source]
        source: TemplateError,
    },
}

/// A CLI of this machine as people are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    pub word: EngineWord,
    pub program: PathBuf,
    /// None if it tells nothing we understand.
    pub version: Option<String>,
    /// The oldest version that will do, where this one is older.
    pub wanted: Option<[u32; 2]>,
}

/// The CLI that `auto` means here: the first that works, else the first there is, so that people are told what is
/// wrong with it.
pub async fn preferred(path: &OsString) -> Option<Introduction> {
    let mut first = None;
    for cli in found(|name| program(name, path)) {
        let cli = introduced(cli.word, cli.program).await;
        if cli.version.is_some() && cli.wanted.is_none() {
            return Some(cli);
        }
        first = first.or(Some(cli));
    }
    first
}

/// Lets a program say who it is.
pub async fn introduced(word: EngineWord, program: PathBuf) -> Introduction {
    let said = version(&program).await.unwrap_or_default();
    let version = number_in(&said).map(str::to_owned);
    let found = version.as_deref().and_then(parse);
    let wanted = minimum(word).filter(|minimum| found.is_some_and(|found| found < *minimum));
    Introduction { word, program, version, wanted }
}

/// The engine of this word, ready to be called.
pub async fn find(word: EngineWord, site: &Site) -> Result<Arc<dyn Engine>, Unavailable> {
    match word {
        EngineWord::Auto => auto(site).await,
        EngineWord::Claude => {
            let program = checked(word, site).await?;
            Ok(Arc::new(claude::Claude { program }))
        }
        EngineWord::Codex => {
            let program = checked(word, site).await?;
            let sandbox = sandbox(&program).await;
            Ok(Arc::new(Codex { program, home: site.codex_home.clone(), sandbox }))
        }
        EngineWord::CursorAgent => cursor_agent(),
        EngineWord::Custom => custom(site),
        EngineWord::Demo => Ok(Arc::new(demo::Demo { program: site.own_program.clone() })),
    }
}

/// A program by its name, as a shell would find it.
pub fn program(name: &str, path: &OsString) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|known| known.is_file() && known.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|folder| folder.join(name)).find(is_program)
}

/// The first one that works; if none does, why the first that is there does not.
async fn auto(site: &Site) -> Result<Arc<dyn Engine>, Unavailable> {
    let mut reason = Unavailable::Nothing;
    for word in CLIS {
        match Box::pin(find(word, site)).await {
            Ok(engine) => return Ok(engine),
            Err(Unavailable::Missing { .. }) => {}
            Err(other) if matches!(reason, Unavailable::Nothing) => reason = other,
            Err(_) => {}
        }
    }
    Err(reason)
}

async fn checked(word: EngineWord, site: &Site) -> Result<PathBuf, Unavailable> {
    let program = program(word.word(), &site.path).ok_or(Unavailable::Missing { word })?;
    let said = version(&program).await.map_err(|reason| Unavailable::Mute { word, reason })?;
    let found = number_in(&said).and_then(parse);
    let found = found.ok_or_else(|| Unavailable::Mute { word, reason: said.trim().to_owned() })?;
    match minimum(word) {
        Some(wanted) if found < wanted => Err(Unavailable::TooOld { word, found, wanted }),
        Some(_) | None => Ok(program),
    }
}

/// The oldest version that will do, where we know one.
fn minimum(word: EngineWord) -> Option<[u32; 2]> {
    match word {
        EngineWord::Claude => Some(claude::MINIMUM),
        EngineWord::Codex => Some(codex::MINIMUM),
        EngineWord::Auto | EngineWord::CursorAgent | EngineWord::Custom | EngineWord::Demo => None,
    }
}

async fn version(program: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Ok(output)) => Err(output.status.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it timed out".to_owned()),
    }
}

/// The version among the words of an answer such as `codex-cli 0.166.0`.
fn number_in(said: &str) -> Option<&str> {
    said.split_whitespace().map(|word| word.trim_start_matches('v')).find(|word| parse(word).is_some())
}

/// The first two parts of a version, which are numbers.
fn parse(version: &str) -> Option<[u32; 2]> {
    let mut numbers = version.split('.');
    Some([numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?])
}

/// Lets Codex try its own way of shutting a command in.
async fn sandbox(program: &Path) -> Sandbox {
    let mut command = Command::new(program);
    command.args(codex::TRY_SANDBOX).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let tried = tokio::time::timeout(PATIENCE, command.kill_on_drop(true).status()).await;
    if matches!(tried, Ok(Ok(status)) if status.success()) {
        return Sandbox::Workspace;
    }
    tracing::warn!("Codex cannot sandbox its commands on this machine; it runs them without a sandbox");
    Sandbox::Impossible
}

fn cursor_agent() -> Result<Arc<dyn Engine>, Unavailable> {
    let wrong = |source| Unavailable::Template { origin: "the template of cursor-agent".to_owned(), source };
    Ok(Arc::new(Custom::cursor_agent(&Values::new()).map_err(wrong)?))
}

fn custom(site: &Site) -> Result<Arc<dyn Engine>, Unavailable> {
    let path = site.run_template.as_ref().ok_or(Unavailable::NoTemplate)?;
    let run = read(path)?;
    let create_chat = site.create_chat_template.as_ref().map(read).transpose()?;
    let wrong = |source| Unavailable::Template { origin: path.display().to_string(), source };
    let values = Values::new();
    Ok(Arc::new(Custom::new(EngineWord::Custom, &run, create_chat.as_deref(), &values).map_err(wrong)?))
}

fn read(path: &PathBuf) -> Result<String, Unavailable> {
    std::fs::read_to_string(path).map_err(|source| Unavailable::Unreadable { path: path.clone(), source })
}

fn dotted([major, minor]: [u32; 2]) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
#[path = "installed_tests.rs"]
mod tests;
