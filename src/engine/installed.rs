//! Finds the CLI of an engine on this machine and checks its version.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;

use super::codex::Sandbox;
use super::commands::{CommandEngines, Program, Templates};
use super::discovery::{CLIS, find_clis};
use super::template::{TemplateError, Values};
use super::{Engine, EngineWord, claude, codex};

/// Long enough for the first start of a CLI on a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Paths of programs and settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPaths {
    /// This binary, which contains the demo engine.
    pub own_program: PathBuf,
    /// The directories of programs, as in PATH.
    pub path: OsString,
    pub codex_home: PathBuf,
    pub run_template: Option<PathBuf>,
    pub create_chat_template: Option<PathBuf>,
}

/// Why an engine cannot be used here; each message has a remedy.
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
    NoVersion { word: EngineWord, reason: String },
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

/// A CLI of this machine with its version, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledCli {
    pub word: EngineWord,
    pub program: PathBuf,
    /// None if its answer has no version.
    pub version: Option<String>,
    /// The minimum version, if this version is older.
    pub wanted: Option<[u32; 2]>,
}

/// The CLI that `auto` stands for: the first supported CLI, else the first installed CLI, so that messages state its
/// problem.
pub async fn preferred(path: &OsString) -> Option<InstalledCli> {
    let mut first = None;
    for cli in find_clis(|name| program(name, path)) {
        let cli = inspect(cli.word, cli.program).await;
        if cli.version.is_some() && cli.wanted.is_none() {
            return Some(cli);
        }
        first = first.or(Some(cli));
    }
    first
}

/// Asks a program for its version.
pub async fn inspect(word: EngineWord, program: PathBuf) -> InstalledCli {
    let answer = version(&program).await.unwrap_or_default();
    let version = number_in(&answer).map(str::to_owned);
    let found = version.as_deref().and_then(parse);
    let wanted = minimum(word).filter(|minimum| found.is_some_and(|found| found < *minimum));
    InstalledCli { word, program, version, wanted }
}

/// The engine for this keyword, after a check of its program.
pub async fn find(word: EngineWord, search_paths: &SearchPaths) -> Result<Arc<dyn Engine>, Unavailable> {
    let (path, sandbox) = match word {
        EngineWord::Auto => return auto(search_paths).await,
        EngineWord::Claude => (checked(word, search_paths).await?, Sandbox::Workspace),
        EngineWord::Codex => {
            let program = checked(word, search_paths).await?;
            let sandbox = sandbox(&program).await;
            (program, sandbox)
        }
        // Their templates name the program.
        EngineWord::CursorAgent | EngineWord::Custom => (PathBuf::new(), Sandbox::Workspace),
        EngineWord::Demo => (search_paths.own_program.clone(), Sandbox::Workspace),
    };
    let program = Program { path, codex_home: search_paths.codex_home.clone(), sandbox };
    engines(word, search_paths)?.by_word(word, program).ok_or(Unavailable::NoTemplate)
}

/// Resolves a program's name by PATH, as a shell does.
pub fn program(name: &str, path: &OsString) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|known| known.is_file() && known.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|folder| folder.join(name)).find(is_program)
}

/// The first usable engine; without any, the reason of the first installed CLI.
async fn auto(search_paths: &SearchPaths) -> Result<Arc<dyn Engine>, Unavailable> {
    let mut reason = Unavailable::Nothing;
    for word in CLIS {
        match Box::pin(find(word, search_paths)).await {
            Ok(engine) => return Ok(engine),
            Err(Unavailable::Missing { .. }) => {}
            Err(other) if matches!(reason, Unavailable::Nothing) => reason = other,
            Err(_) => {}
        }
    }
    Err(reason)
}

async fn checked(word: EngineWord, search_paths: &SearchPaths) -> Result<PathBuf, Unavailable> {
    let program = program(word.word(), &search_paths.path).ok_or(Unavailable::Missing { word })?;
    let answer = version(&program).await.map_err(|reason| Unavailable::NoVersion { word, reason })?;
    let found = number_in(&answer).and_then(parse);
    let found = found.ok_or_else(|| Unavailable::NoVersion { word, reason: answer.trim().to_owned() })?;
    match minimum(word) {
        Some(wanted) if found < wanted => Err(Unavailable::TooOld { word, found, wanted }),
        Some(_) | None => Ok(program),
    }
}

/// The minimum version, if the engine has one.
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
    match tokio::time::timeout(ANSWER_LIMIT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Ok(output)) => Err(output.status.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it timed out".to_owned()),
    }
}

/// The version in an answer such as `codex-cli 0.166.0`.
fn number_in(answer: &str) -> Option<&str> {
    answer.split_whitespace().map(|word| word.trim_start_matches('v')).find(|word| parse(word).is_some())
}

/// Major and minor version.
fn parse(version: &str) -> Option<[u32; 2]> {
    let mut numbers = version.split('.');
    Some([numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?])
}

/// Tests whether Codex can sandbox a command here.
async fn sandbox(program: &Path) -> Sandbox {
    let mut command = Command::new(program);
    command.args(codex::TRY_SANDBOX).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let tried = tokio::time::timeout(ANSWER_LIMIT, command.kill_on_drop(true).status()).await;
    if matches!(tried, Ok(Ok(status)) if status.success()) {
        return Sandbox::Workspace;
    }
    tracing::warn!("Codex cannot sandbox its commands on this machine; it runs them without a sandbox");
    Sandbox::Impossible
}

/// Reads the templates of a custom engine only if it is requested.
fn engines(word: EngineWord, search_paths: &SearchPaths) -> Result<CommandEngines, Unavailable> {
    let path = search_paths.run_template.as_ref().filter(|_| word == EngineWord::Custom);
    let run = path.map(read).transpose()?;
    let create_chat = path.and(search_paths.create_chat_template.as_ref()).map(read).transpose()?;
    let templates = run.as_ref().map(|run| Templates { run, create_chat: create_chat.as_deref() });
    CommandEngines::new(templates, &Values::new()).map_err(|source| {
        let origin = path.map_or("the template of cursor-agent".into(), |path| path.display().to_string());
        Unavailable::Template { origin, source }
    })
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
