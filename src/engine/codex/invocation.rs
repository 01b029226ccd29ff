//! How Codex is called: sandbox, configuration and prompt for one run.

use std::ffi::OsString;
use std::path::Path;

use super::{Codex, Sandbox, TOKEN_VARIABLE, overrides};
use crate::domain::provision::CLIENT_SERVER;
use crate::engine::request::{NOTES, ROLE};
use crate::engine::{Invocation, InvocationError, Repository, Request};

/// No code of a repository runs and no rule of it applies, and the start makes no network request.
const QUIET: [&str; 7] =
    ["--ignore-rules", "--disable", "hooks", "--disable", "plugins", "--disable", "apps"];
/// Commands of Codex get no keys. They get the rest of the environment: builds need it, and its marker identifies
/// every process of a run.
const SHELL: &str = r#"shell_environment_policy.exclude=["*API_KEY*","FLEET_TOKEN"]"#;
const FIXED: [&str; 3] = ["skills.include_instructions=false", "check_for_update_on_startup=false", SHELL];

pub(super) fn of(codex: &Codex, request: &Request) -> Result<Invocation, InvocationError> {
    let mut arguments: Vec<OsString> = ["exec", "--json", "--skip-git-repo-check"].map(Into::into).into();
    arguments.extend(["-C".into(), request.directory.clone().into_os_string()]);
    arguments.extend(QUIET.map(Into::into));
    if let Some(model) = &request.model {
        arguments.extend(["-m".into(), model.into()]);
    }
    arguments.extend(sandbox(codex.sandbox, request.repository.as_ref()));
    for setting in settings(request)? {
        arguments.extend(["-c".into(), setting.into()]);
    }
    // Arguments after `resume` are not read as options.
    if let Some(id) = request.session.known() {
        arguments.extend(["resume".into(), id.into()]);
    }
    arguments.push("-".into());
    let token = request.fleet.iter().map(|fleet| (TOKEN_VARIABLE.to_owned(), fleet.token.clone()));
    Ok(Invocation {
        program: codex.program.clone(),
        arguments,
        environment: Vec::new(),
        secrets: token.collect(),
        // Codex has no argument for a system prompt, so the role precedes the task.
        stdin: request.prompt(&[(ROLE, request.role_text()), (NOTES, request.notes.as_deref())]),
    })
}

/// Commits write to both git directories, which the sandbox makes read-only by default.
fn sandbox(sandbox: Sandbox, repository: Option<&Repository>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["--sandbox", sandbox.word()].map(Into::into).into();
    if sandbox == Sandbox::Impossible {
        return arguments;
    }
    arguments.extend(["-c", "sandbox_workspace_write.network_access=true"].map(Into::into));
    if let Some(repository) = repository {
        arguments.extend(["-c".into(), writable_roots(repository).into()]);
    }
    arguments
}

fn writable_roots(repository: &Repository) -> String {
    let Repository { git_directory, common_directory } = repository;
    let mut roots = vec![quoted(common_directory)];
    if git_directory != common_directory {
        roots.push(quoted(git_directory));
    }
    format!("sandbox_workspace_write.writable_roots=[{}]", roots.join(","))
}

fn settings(request: &Request) -> Result<Vec<String>, InvocationError> {
    let mut settings: Vec<String> = FIXED.map(str::to_owned).into();
    settings.push(distrust(&request.directory, request.repository.as_ref()));
    settings.extend(request.settings.as_deref().and_then(without_client));
    if let Some(fleet) = &request.fleet {
        settings.extend(overrides::of(&fleet.config_toml)?);
    }
    Ok(settings)
}

/// Disables the server that makes the user's own Codex a client of the fleet: it has a manager's token, not the
/// agent's. Codex rejects the setting if the user has no such server.
fn without_client(settings: &str) -> Option<String> {
    let table: toml::Table = settings.parse().ok()?;
    table.get("mcp_servers")?.get(CLIENT_SERVER)?;
    Some(format!("mcp_servers.{CLIENT_SERVER}.enabled=false"))
}

/// Marks the repository as untrusted: Codex trusts unknown repositories and runs programs of their configuration. Only
/// the inline form of this table is read; the key is the directory that contains the common git directory.
fn distrust(directory: &Path, repository: Option<&Repository>) -> String {
    let root = repository.and_then(|repository| repository.common_directory.parent());
    let mut known = vec![directory];
    known.extend(root.filter(|root| *root != directory));
    let entries = known.iter().map(|path| format!("{}={{trust_level=\"untrusted\"}}", quoted(path)));
    format!("projects={{{}}}", entries.collect::<Vec<_>>().join(","))
}

/// A basic TOML string: the only form that can be a key with any content.
fn quoted(path: &Path) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", path.display().to_string().chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_own_client_of_the_fleet_is_switched_off_where_there_is_one() {
        let off = Some("mcp_servers.fleet.enabled=false".to_owned());
        assert_eq!(without_client("[mcp_servers.fleet]\ncommand = \"x\"\n"), off);
        assert_eq!(without_client("mcp_servers = { fleet = { url = \"u\" } }"), off);
        for settings in
            ["", "model = \"m\"", "[mcp_servers.other]\ncommand = \"x\"", "[half", "mcp_servers = 3"]
        {
            assert_eq!(without_client(settings), None, "{settings}");
        }
    }

    /// A name that escaped its quotes would disable the setting.
    #[test]
    fn directories_of_any_name_are_distrusted_with_the_root_of_their_repository() {
        let untrusted = || toml::Table::from_iter([("trust_level".to_owned(), "untrusted".into())]);
        for name in ["plain", "we\"ird", "it's", "it's \"both\"", "back\\slash", "two\nlines", "tab\t\u{7f}"]
        {
            let (root, directory) = (format!("/src/{name}"), format!("/src/{name}/sub"));
            let common_directory = Path::new(&root).join(".git");
            let repository = Repository { git_directory: common_directory.clone(), common_directory };
            let read = toml::from_str::<toml::Table>(&distrust(Path::new(&directory), Some(&repository)));
            let expected = [directory, root].map(|path| (path, untrusted().into()));
            let expected = toml::Table::from_iter(expected);
            assert_eq!(read.unwrap()["projects"], expected.into(), "{name}");
            assert!(toml::from_str::<toml::Table>(&writable_roots(&repository)).is_ok(), "{name}");
        }
    }
}
