//! How Codex is called: sandbox, configuration and prompt for one run.

use std::ffi::OsString;
use std::path::Path;

use super::{Codex, Sandbox, TOKEN_VARIABLE, overrides};
use crate::engine::request::{NOTES, ROLE};
use crate::engine::{Invocation, Repository, Request, Unfit};

/// Nothing a repository brings along is started or believed, and nothing asks the outside world at the start.
const QUIET: [&str; 7] =
    ["--ignore-rules", "--disable", "hooks", "--disable", "plugins", "--disable", "apps"];
/// Keys stay out of the commands Codex runs. The rest of the environment is passed on, because builds need it and
/// because the marker in it is how we find every process of a run.
const SHELL: &str = r#"shell_environment_policy.exclude=["*API_KEY*","FLEET_TOKEN"]"#;
const FIXED: [&str; 3] = ["skills.include_instructions=false", "check_for_update_on_startup=false", SHELL];

pub(super) fn of(codex: &Codex, request: &Request) -> Result<Invocation, Unfit> {
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
    // What follows `resume` may not be an option.
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
        // Codex takes no system prompt, so the persona comes first.
        stdin: request.prompt(&[(ROLE, request.role_text()), (NOTES, request.notes.as_deref())]),
    })
}

/// Commits need both git directories, which are not writable by themselves.
fn sandbox(sandbox: Sandbox, repository: Option<&Repository>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["--sandbox", sandbox.word()].map(Into::into).into();
    if sandbox == Sandbox::Impossible {
        return arguments;
    }
    arguments.extend(["-c", "sandbox_workspace_write.network_access=true"].map(Into::into));
    if let Some(Repository { git_directory, common_directory }) = repository {
        let mut roots = vec![quoted(common_directory)];
        if git_directory != common_directory {
            roots.push(quoted(git_directory));
        }
        let roots = format!("sandbox_workspace_write.writable_roots=[{}]", roots.join(","));
        arguments.extend(["-c".into(), roots.into()]);
    }
    arguments
}

fn settings(request: &Request) -> Result<Vec<String>, Unfit> {
    let mut settings: Vec<String> = FIXED.map(str::to_owned).into();
    settings.push(distrust(request));
    if let Some(fleet) = &request.fleet {
        settings.extend(overrides::of(&fleet.config_toml)?);
    }
    Ok(settings)
}

/// Codex trusts a repository it does not know, and starts what its configuration names. Only the inline form of
/// this table is heeded; the repository is known by the directory that holds its common git directory.
fn distrust(request: &Request) -> String {
    let root = request.repository.as_ref().and_then(|repository| repository.common_directory.parent());
    let mut known = vec![request.directory.as_path()];
    known.extend(root.filter(|root| *root != request.directory));
    let entries = known.iter().map(|path| format!("{}={{trust_level=\"untrusted\"}}", quoted(path)));
    format!("projects={{{}}}", entries.collect::<Vec<_>>().join(","))
}

/// A TOML string.
fn quoted(path: &Path) -> String {
    toml::Value::String(path.display().to_string()).to_string()
}
