//! Settings of squads: modes, times and the templates of a custom engine.

use std::path::PathBuf;
use std::time::Duration;

use super::check::bad;
use super::file::{Runs, Squads};
use super::{ConfigError, SquadSettings, TemplateFile};
use crate::domain::squad::{ExecutionMode, StateMode};

const LONGEST_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1_000;
const LONGEST_DELAY_MS: u64 = 60 * 60 * 1_000;

pub(super) fn checked(
    squads: Squads,
    runs: Runs,
    tool_timeout_ms: Option<u64>,
) -> Result<SquadSettings, ConfigError> {
    if !(1..=LONGEST_TIMEOUT_MS).contains(&squads.process_timeout_ms) {
        let problem = format!("it must be between 1 and {LONGEST_TIMEOUT_MS}");
        return Err(bad("squads.process_timeout_ms", problem));
    }
    if squads.sequential_delay_ms > LONGEST_DELAY_MS {
        return Err(bad(
            "squads.sequential_delay_ms",
            format!("it must be between 0 and {LONGEST_DELAY_MS}"),
        ));
    }
    if squads.create_chat_template.is_some() && squads.run_template.is_none() {
        let problem =
            "it creates chats for the template in squads.run_template (RUN_TEMPLATE_PATH): set that too";
        return Err(bad("squads.create_chat_template", problem));
    }
    Ok(SquadSettings {
        state_mode: StateMode::parse(&squads.state_mode)
            .ok_or_else(|| bad("squads.state_mode", "it must be stateless or stateful"))?,
        execution_mode: squads.execution_mode.as_deref().map(execution_mode).transpose()?,
        delay: Duration::from_millis(squads.sequential_delay_ms),
        timeout: Duration::from_millis(squads.process_timeout_ms),
        run_template: squads.run_template.map(template).transpose()?,
        create_chat_template: squads.create_chat_template.map(template).transpose()?,
        values: squads.values,
        runs_project: runs.project,
        longest_wait: tool_timeout_ms.map(longest_wait).transpose()?,
    })
}

fn longest_wait(millis: u64) -> Result<Duration, ConfigError> {
    if millis == 0 {
        return Err(bad(
            "mcp.tool_timeout_ms",
            "it must be at least 1; omit it to wait until work has ended",
        ));
    }
    Ok(Duration::from_millis(millis))
}

fn execution_mode(word: &str) -> Result<ExecutionMode, ConfigError> {
    ExecutionMode::parse(word)
        .ok_or_else(|| bad("squads.execution_mode", "it must be sequential or parallel"))
}

fn template(path: PathBuf) -> Result<TemplateFile, ConfigError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(TemplateFile { path, text }),
        Err(error) => Err(ConfigError::File { path, problem: error.to_string() }),
    }
}
