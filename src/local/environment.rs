//! The environment of a workspace's processes: a few inherited variables, and our own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::AgentFile;
use super::build::marker;
use super::deployment_info::{AGENT_NAME, APP_SLUG, DeploymentInfo, USERNAME};
use super::record::Workspace;
use crate::domain::environment::{BASE, DIRECTORY_VARIABLE, is_allowed};
use crate::hooks;

/// Inputs of the environment of an agent's process.
#[derive(Debug)]
pub(crate) struct AgentEnvironment<'a> {
    pub(crate) info: &'a DeploymentInfo,
    pub(crate) workspace: &'a Workspace,
    pub(crate) generation: i64,
    pub(crate) token: &'a str,
    pub(crate) fleet: &'a Path,
    pub(crate) engine: &'a str,
    pub(crate) files: &'a [AgentFile],
}

/// The inherited variables that processes of a workspace may have.
pub(crate) fn inherited(variables: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let text =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| is_inherited(name)).collect()
}

pub(crate) fn of_agent(agent: &AgentEnvironment<'_>) -> BTreeMap<String, String> {
    let mut environment = of_terminal(agent.info, agent.workspace, agent.fleet);
    let more = [
        ("CODER_AGENT_TOKEN", agent.token.to_owned()),
        ("FLEET_AGENT_LISTENER", "stdin".to_owned()),
        ("FLEET_ENGINE", agent.engine.to_owned()),
        ("FLEET_APP_SLUG", APP_SLUG.to_owned()),
        ("FLEET_GENERATION", agent.generation.to_string()),
    ];
    environment.extend(more.map(|(name, value)| (name.to_owned(), value)));
    environment.extend(hooks::limits_variable());
    let path = |file: &AgentFile| agent.fleet.join(file.name).display().to_string();
    environment.extend(agent.files.iter().map(|file| (file.variable.to_owned(), path(file))));
    environment
}

/// Terminals get no credential of the agent.
pub(crate) fn of_terminal(
    info: &DeploymentInfo,
    workspace: &Workspace,
    fleet: &Path,
) -> BTreeMap<String, String> {
    let mut environment = inherited(std::env::vars_os());
    let variables = [
        ("CODER_AGENT_URL", info.url.to_string()),
        ("CODER_WORKSPACE_NAME", workspace.name.clone()),
        ("CODER_WORKSPACE_ID", workspace.id.to_string()),
        ("CODER_WORKSPACE_OWNER_NAME", USERNAME.to_owned()),
        ("CODER_WORKSPACE_AGENT_NAME", AGENT_NAME.to_owned()),
        (DIRECTORY_VARIABLE, fleet.display().to_string()),
    ];
    environment.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    environment.extend(workspace.base.clone().map(|base| (BASE.to_owned(), base)));
    let marker = marker(workspace.id);
    environment.insert(marker.key, marker.value);
    environment
}

/// The server may itself run in a workspace of another Coder, whose variables must not be inherited.
fn is_inherited(name: &str) -> bool {
    is_allowed(name) && !name.starts_with("CODER_") && !name.starts_with("GIT_") && name != "PWD"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_gets_through() {
        let names = [
            "PATH",
            "LC_TIME",
            "ANTHROPIC_API_KEY",
            "CODER_SESSION_TOKEN",
            "FLEET_TOKEN",
            "GITHUB_TOKEN",
            "LD_PRELOAD",
        ];
        let variables = names.map(|name| (OsString::from(name), OsString::from("x")));
        let inherited = inherited(variables.into_iter());
        assert_eq!(inherited.keys().collect::<Vec<_>>(), ["ANTHROPIC_API_KEY", "LC_TIME", "PATH"]);
    }
}
