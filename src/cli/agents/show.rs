//! `agents show`: all details of one agent.

use chrono::Utc;

use crate::cli::age::relative;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::fields::{Field, field, optional, render, toned};
use crate::cli::screen::Screen;
use crate::cli::tone::Tone;
use crate::cli::usage;
use crate::domain::name::AgentName;
use crate::domain::text::{one_line, printable};
use crate::view::agent::{AgentDetail, AgentShown};
use crate::view::request::NoInput;
use crate::view::task::TaskSummary;

pub(super) async fn run(client: &Client, name: &AgentName, screen: &Screen) -> Result<Exit, CliError> {
    let body = client.get(&["agents", name.as_str()], &NoInput {}).await?;
    screen.answer(&body, |shown: &AgentShown| {
        let agent = &shown.agent;
        screen.rendered(&render(&facts(agent)))?;
        screen.line(&metadata(agent))?;
        screen.line(&format!("spec\n{}", indented(&agent.spec)))?;
        if !agent.spec_sections.missing.is_empty() {
            screen.hint(&format!("the spec has no heading {}", agent.spec_sections.missing.join(", ")));
        }
        screen.hint(&format!("fleet-mcp agents history {name} shows its tasks and reports"));
        Ok(())
    })?;
    Ok(Exit::Ok)
}

fn facts(agent: &AgentDetail) -> Vec<Field> {
    let now = Utc::now();
    let age = |time: &str| relative(time, now);
    let attention = Some(agent.attention.as_str()).filter(|word| *word != "none");
    vec![
        field("name", &agent.name),
        toned("status", Tone::of_status(&agent.status), &agent.status),
        field("reason", &agent.reason),
        toned("attention", Some(Tone::Bad), attention.unwrap_or_default()),
        field("role", &agent.role),
        field("project", &agent.project),
        optional("directory", agent.directory.as_deref()),
        optional("current task", agent.current_task.as_deref()),
        optional("last task", agent.last_task.as_ref().map(task).as_deref()),
        optional("pull request", agent.links.pull_request.as_deref()),
        optional("workspace", agent.links.workspace.as_deref()),
        optional("git", agent.git.as_ref().map(ToString::to_string).as_deref()),
        optional("used", agent.usage.as_ref().map(usage::detail).as_deref()),
        optional("starts", agent.starts.map(|starts| starts.to_string()).as_deref()),
        optional("callback", agent.callback.as_deref()),
        toned("no callback", Some(Tone::Bad), agent.callback_reason.as_deref().unwrap_or_default()),
        field("created", age(&agent.created_at)),
        field("seen", agent.observed_at.as_deref().map_or("never".to_owned(), age)),
    ]
}

fn task(task: &TaskSummary) -> String {
    let outcome = task.outcome.as_ref().map(|outcome| format!(" ({outcome})")).unwrap_or_default();
    format!("{}: {}{outcome}", task.state, task.message)
}

/// The spec is shown as text below, so its copy in the metadata is omitted.
fn metadata(agent: &AgentDetail) -> String {
    let lines = agent.metadata.iter().filter(|(key, _)| *key != "fleet_mcp_agent_spec");
    let lines: Vec<String> =
        lines.map(|(key, value)| format!("  {}: {}", one_line(key), one_line(value))).collect();
    if lines.is_empty() { String::new() } else { format!("\nmetadata\n{}\n", lines.join("\n")) }
}

fn indented(text: &str) -> String {
    let text = printable(text);
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}
