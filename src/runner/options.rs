//! The options of a runner, read from its environment and validated.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use thiserror::Error;
use url::Url;

use super::limits::RunnerLimits;
use super::resolved_engine::ResolvedEngine;
use crate::domain::bundle::is_object_id;
use crate::domain::environment::BASE;
use crate::engine::installed::SearchPaths;
use crate::engine::{self, UnknownEngine};

const LISTENER: &str = "FLEET_AGENT_LISTENER";
const STDIN: &str = "stdin";
const DEFAULT_SLUG: &str = "ccw";

/// Options of a runner.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of its journal, metadata and prompt.
    pub directory: PathBuf,
    /// The engine's working directory.
    pub work_directory: PathBuf,
    pub listen: Listen,
    pub engine: ResolvedEngine,
    /// None for the engine's default.
    pub model: Option<String>,
    /// The number of the build that started this workspace; 0 if unknown.
    pub generation: u64,
    pub workspace: Option<String>,
    /// The commit that the agent started from, if known.
    pub base: Option<String>,
    pub coder: Option<CoderOptions>,
    pub limits: RunnerLimits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    Socket(PathBuf),
    /// On the socket that the embedded Coder has bound and passed as standard input.
    Inherited,
    /// On the loopback address.
    Port(u16),
}

/// The Coder server for reports, and the token.
#[derive(Debug, Clone)]
pub struct CoderOptions {
    pub url: Url,
    pub agent_token: SecretString,
    pub app_slug: String,
}

#[derive(Debug, Error)]
pub enum OptionsError {
    #[error("set FLEET_AGENT_SOCKET to the path of a socket, or choose a port with --port")]
    NoListen,
    #[error("set FLEET_AGENT_DIR, or HOME to use ~/.fleet")]
    NoDirectory,
    #[error("set FLEET_ENGINE to one of: {}", engine::word_list())]
    NoEngine,
    #[error("FLEET_ENGINE: {0}")]
    Engine(#[source] UnknownEngine),
    #[error("{name}: '{value}' is not {wanted}")]
    Value { name: &'static str, value: String, wanted: &'static str },
    #[error("the current directory cannot be read")]
    WorkDirectory(#[source] std::io::Error),
    #[error("the path of this program is not known")]
    Program(#[source] std::io::Error),
}

impl Options {
    /// `variable` reads the environment, so that tests can pass their own. It may set some of the limits.
    pub fn read(
        port: Option<u16>,
        limits: RunnerLimits,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, OptionsError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let engine = variable("FLEET_ENGINE").ok_or(OptionsError::NoEngine)?;
        let engine = engine::by_word(&engine).map_err(OptionsError::Engine)?;
        Ok(Self {
            directory: directory(&variable)?,
            work_directory: std::env::current_dir().map_err(OptionsError::WorkDirectory)?,
            listen: listen(port, &variable)?,
            engine: ResolvedEngine::new(engine, search_paths(&variable)?),
            model: variable("FLEET_MODEL"),
            generation: number("FLEET_GENERATION", &variable)?.unwrap_or_default(),
            workspace: variable("CODER_WORKSPACE_NAME"),
            base: variable(BASE).filter(|base| is_object_id(base)),
            coder: coder(&variable)?,
            limits: RunnerLimits {
                interrupt: grace("FLEET_INTERRUPT_MS", &variable)?.unwrap_or(limits.interrupt),
                terminate: grace("FLEET_TERMINATE_MS", &variable)?.unwrap_or(limits.terminate),
                provisioning: grace("FLEET_BRIEFING_MS", &variable)?.unwrap_or(limits.provisioning),
                ..limits
            },
        })
    }
}

fn directory(variable: &impl Fn(&str) -> Option<String>) -> Result<PathBuf, OptionsError> {
    let usual = || variable("HOME").map(|home| PathBuf::from(home).join(".fleet"));
    variable("FLEET_AGENT_DIR").map(PathBuf::from).or_else(usual).ok_or(OptionsError::NoDirectory)
}

fn search_paths(variable: &impl Fn(&str) -> Option<String>) -> Result<SearchPaths, OptionsError> {
    let home = || PathBuf::from(variable("HOME").unwrap_or_default()).join(".codex");
    Ok(SearchPaths {
        own_program: std::env::current_exe().map_err(OptionsError::Program)?,
        path: variable("PATH").unwrap_or_default().into(),
        codex_home: variable("CODEX_HOME").map_or_else(home, PathBuf::from),
        run_template: variable("RUN_TEMPLATE_PATH").map(PathBuf::from),
        create_chat_template: variable("CREATE_CHAT_TEMPLATE_PATH").map(PathBuf::from),
    })
}

fn listen(port: Option<u16>, variable: &impl Fn(&str) -> Option<String>) -> Result<Listen, OptionsError> {
    let inherited = match variable(LISTENER).as_deref() {
        Some(STDIN) => Some(Listen::Inherited),
        Some(value) => {
            return Err(OptionsError::Value { name: LISTENER, value: value.to_owned(), wanted: "'stdin'" });
        }
        None => None,
    };
    let socket = || variable("FLEET_AGENT_SOCKET").map(|path| Listen::Socket(path.into()));
    port.map(Listen::Port).or(inherited).or_else(socket).ok_or(OptionsError::NoListen)
}

/// Without address or token there is no server to report to, as outside a workspace.
fn coder(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<CoderOptions>, OptionsError> {
    let (Some(url), Some(token)) = (variable("CODER_AGENT_URL"), variable("CODER_AGENT_TOKEN")) else {
        return Ok(None);
    };
    let bad = |_| OptionsError::Value { name: "CODER_AGENT_URL", value: url.clone(), wanted: "a URL" };
    Ok(Some(CoderOptions {
        url: Url::parse(&url).map_err(bad)?,
        agent_token: SecretString::from(token.trim().to_owned()),
        app_slug: variable("FLEET_APP_SLUG").unwrap_or_else(|| DEFAULT_SLUG.to_owned()),
    }))
}

fn grace(
    name: &'static str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Duration>, OptionsError> {
    Ok(number(name, variable)?.map(Duration::from_millis))
}

fn number(
    name: &'static str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<u64>, OptionsError> {
    let Some(value) = variable(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(OptionsError::Value { name, value, wanted: "a whole number" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(port: Option<u16>, variables: &[(&str, &str)]) -> Result<Options, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Options::read(port, RunnerLimits::NORMAL, |name| find(name).map(|(_, value)| (*value).to_owned()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_workspace_outside_our_own_coder_needs_only_an_engine_a_port_and_a_home() {
        let options = read(Some(3284), &[("FLEET_ENGINE", "demo"), ("HOME", "/home/ann")]).unwrap();
        assert_eq!(options.directory, PathBuf::from("/home/ann/.fleet"));
        assert_eq!(options.listen, Listen::Port(3284));
        assert_eq!((options.generation, options.coder.is_none()), (0, true));
        assert_eq!(options.limits, RunnerLimits::NORMAL);
    }

    #[test]
    fn a_limit_of_the_environment_replaces_the_one_handed_in() {
        let variables = [("FLEET_ENGINE", "demo"), ("HOME", "/home/ann"), ("FLEET_INTERRUPT_MS", "7")];
        let options = read(Some(3284), &variables).unwrap();
        let expected = RunnerLimits { interrupt: Duration::from_millis(7), ..RunnerLimits::NORMAL };
        assert_eq!(options.limits, expected);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let engine = ("FLEET_ENGINE", "demo");
        let home = ("HOME", "/home/ann");
        let refusal = |port, variables: &[(&str, &str)]| read(port, variables).unwrap_err();
        assert_eq!(refusal(Some(1), &[home]), format!("set FLEET_ENGINE to one of: {}", engine::word_list()));
        assert_eq!(refusal(Some(1), &[engine]), "set FLEET_AGENT_DIR, or HOME to use ~/.fleet");
        assert_eq!(
            refusal(None, &[engine, home]),
            "set FLEET_AGENT_SOCKET to the path of a socket, or choose a port with --port"
        );
        assert_eq!(
            refusal(Some(1), &[engine, home, ("FLEET_GENERATION", "two")]),
            "FLEET_GENERATION: 'two' is not a whole number"
        );
        assert_eq!(
            refusal(None, &[engine, home, ("FLEET_AGENT_LISTENER", "7")]),
            "FLEET_AGENT_LISTENER: '7' is not 'stdin'"
        );
        let address = [engine, home, ("CODER_AGENT_URL", "nowhere"), ("CODER_AGENT_TOKEN", "t")];
        assert_eq!(refusal(Some(1), &address), "CODER_AGENT_URL: 'nowhere' is not a URL");
    }
}
