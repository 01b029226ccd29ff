//! How Claude Code is called: rights, limits and configuration for one run.

use std::ffi::OsString;
use std::path::Path;

use crate::domain::provision::AGENT_SERVER;
use crate::domain::run::EngineOutput;
use crate::engine::request::NOTES;
use crate::engine::{Invocation, Request, Session};

/// All tools are permitted in advance, because no user is present to approve a call.
const TOOLS: &str = "Read,Edit,Write,Bash,Glob,Grep";

pub(super) fn of(program: &Path, request: &Request) -> Invocation {
    let mut arguments: Vec<OsString> = ["-p", "--output-format"].map(Into::into).into();
    arguments.extend(format(request.output).iter().map(Into::into));
    arguments.extend(rights(request));
    arguments.extend(conversation(request));
    Invocation {
        program: program.to_owned(),
        arguments,
        environment: environment(),
        secrets: Vec::new(),
        stdin: request.prompt(&[(NOTES, request.notes.as_deref())]),
    }
}

fn format(output: EngineOutput) -> &'static [&'static str] {
    match output {
        EngineOutput::Text => &["text"],
        EngineOutput::Events => &["stream-json", "--verbose"],
        EngineOutput::Parts => &["stream-json", "--verbose", "--include-partial-messages"],
    }
}

/// Only the user's settings apply: those of a repository could run hooks, start servers, and send the user's key to
/// another base URL.
fn rights(request: &Request) -> Vec<OsString> {
    let allowed = format!("{TOOLS},mcp__{AGENT_SERVER}");
    let allowed = if request.fleet.is_some() { allowed } else { TOOLS.to_owned() };
    let mut arguments: Vec<OsString> =
        ["--setting-sources", "user", "--strict-mcp-config"].map(Into::into).into();
    if let Some(fleet) = &request.fleet {
        arguments.extend(["--mcp-config".into(), fleet.mcp_json.clone().into_os_string()]);
    }
    arguments.extend(["--permission-mode", "dontAsk", "--tools", TOOLS, "--allowedTools"].map(Into::into));
    arguments.push(allowed.into());
    arguments
}

fn conversation(request: &Request) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(model) = &request.model {
        arguments.extend(["--model".into(), model.into()]);
    }
    if let Some(role) = &request.role {
        // In a file: the arguments of a process are readable by other users of the machine.
        arguments.extend(["--append-system-prompt-file".into(), role.file.clone().into_os_string()]);
    }
    if let Some(cost) = request.max_cost_usd {
        arguments.extend(["--max-budget-usd".into(), format!("{cost:.6}").into()]);
    }
    let flag = match &request.session {
        Session::Unnamed | Session::Fresh { .. } => "--session-id",
        Session::Created { .. } | Session::Resume { .. } => "--resume",
    };
    arguments.extend(request.session.id().into_iter().flat_map(|id| [flag.into(), id.into()]));
    arguments
}

/// Without these, background tasks keep the process alive after its answer, a wrong key is retried for more than a
/// minute, tools of the fleet time out, and updates interrupt work.
fn environment() -> Vec<(String, String)> {
    let variables = [
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "4"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("MCP_TOOL_TIMEOUT", "600000"),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
