//! Translates the server's advice, which names tools, into commands for operators.

const COMMANDS: [(&str, &str); 20] = [
    ("cancel_agent_task", "fleet-mcp tasks cancel"),
    ("cancel_operation", "fleet-mcp operations cancel"),
    ("create_agent", "fleet-mcp agents create"),
    ("delete_agent", "fleet-mcp agents delete"),
    ("fleet_status", "fleet-mcp status"),
    ("list_agent_projects", "fleet-mcp projects"),
    ("list_agent_roles", "fleet-mcp roles"),
    ("list_agents", "fleet-mcp agents list"),
    ("list_operations", "fleet-mcp operations list"),
    ("list_roles", "fleet-mcp squad roles"),
    ("restart_agent", "fleet-mcp agents restart"),
    ("show_agent", "fleet-mcp agents show"),
    ("show_agent_log", "fleet-mcp agents logs"),
    ("show_agent_task_history", "fleet-mcp agents history"),
    ("start_agent", "fleet-mcp agents start"),
    ("squad_status", "fleet-mcp squad status"),
    ("start_agent_task", "fleet-mcp tasks start"),
    ("start_squad_members", "fleet-mcp squad run"),
    ("stop_agent", "fleet-mcp agents stop"),
    ("wait_for_agents", "fleet-mcp agents list --watch"),
];

/// Values of arguments, where the flag says both.
const SETTINGS: [(&str, &str); 2] =
    [("when_busy=queue", "--when-busy queue"), ("escalate=true", "--escalate")];

/// Words that can only be names of arguments.
const ARGUMENTS: [(&str, &str); 14] = [
    ("agent_name", "--agent"),
    ("chatId", "--chat"),
    ("expires_in_seconds", "--expires"),
    ("memberId", "--member"),
    ("page_size", "--page-size"),
    ("project_filter", "--project"),
    ("pull_request_url", "--pull-request-url"),
    ("role_filter", "--role"),
    ("squadId", "SQUAD"),
    ("status_filter", "--status"),
    ("task_description", "the task"),
    ("timeout_seconds", "--timeout"),
    ("wait_seconds", "--wait"),
    ("when_busy", "--when-busy"),
];

/// Arguments with common names, translated only after "Correct".
const FIELDS: [(&str, &str); 14] = [
    ("agent", "--agent"),
    ("agent_name", "the agent's name"),
    ("agent_names", "the names of the agents"),
    ("cwd", "--cwd"),
    ("kind", "--kind"),
    ("limit", "--limit"),
    ("name", "the name"),
    ("offset", "--offset"),
    ("page", "--page"),
    ("project", "--project"),
    ("projects", "--project"),
    ("role", "--role"),
    ("spec", "the spec"),
    ("stream", "--stream"),
];

/// Replaces whole words only: `start_agent_task` does not contain `start_agent`. A quoted word is a caller's own.
pub(crate) fn for_operators(advice: &str) -> String {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    let mut reworded = String::new();
    let advice = with_flags(advice);
    let mut rest = advice.as_str();
    while let Some(start) = rest.find(is_inside) {
        let (before, from_word) = rest.split_at(start);
        let end = from_word.find(|c| !is_inside(c)).unwrap_or(from_word.len());
        let (word, after) = from_word.split_at(end);
        reworded.push_str(before);
        let is_quoted = before.ends_with('\'') && after.starts_with('\'');
        reworded.push_str(&if is_quoted { word.to_owned() } else { command_of(word) });
        rest = after;
    }
    reworded.push_str(rest);
    reworded.replace("Call '", "Run '").replace("call '", "run '").replace("call again", "try again")
}

/// The field to correct and the settings to use, as flags; a word that is quoted otherwise is a caller's own.
fn with_flags(advice: &str) -> String {
    if advice.starts_with("Correct 'members[") {
        return "Correct the member and call again.".to_owned();
    }
    let fields = FIELDS.iter().chain(&ARGUMENTS);
    let correct = |word: &str| format!("Correct '{word}'");
    let corrected = fields.fold(advice.to_owned(), |text, (field, flag)| {
        text.replace(&correct(field), &format!("Correct {flag}"))
    });
    SETTINGS.iter().fold(corrected, |text, (setting, flag)| text.replace(setting, flag))
}

fn command_of(word: &str) -> String {
    if let Some((_, flag)) = ARGUMENTS.iter().find(|(argument, _)| *argument == word) {
        return (*flag).to_owned();
    }
    let command = COMMANDS.iter().find(|(tool, _)| *tool == word);
    command.map_or_else(|| word.to_owned(), |(_, command)| format!("'{command}'"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{COMMANDS, for_operators};

    #[test]
    fn tools_become_commands_and_other_words_stay() {
        let cases = [
            ("Call list_agents to see all agents.", "Run 'fleet-mcp agents list' to see all agents."),
            (
                "Call show_agent for 'x', then restart_agent or delete_agent.",
                "Run 'fleet-mcp agents show' for 'x', then 'fleet-mcp agents restart' or 'fleet-mcp agents delete'.",
            ),
            ("Correct 'spec' and call again.", "Correct the spec and try again."),
            ("Correct 'agent_names' and call again.", "Correct the names of the agents and try again."),
            ("made; call wait_for_agents to wait", "made; run 'fleet-mcp agents list --watch' to wait"),
            ("Call start_agent_task again", "Run 'fleet-mcp tasks start' again"),
            ("report_status is for agents", "report_status is for agents"),
            ("", ""),
        ];
        for (advice, reworded) in cases {
            assert_eq!(for_operators(advice), reworded);
        }
    }

    #[test]
    fn arguments_become_flags() {
        let cases = [
            (
                "or call start_agent_task with when_busy=queue.",
                "or run 'fleet-mcp tasks start' with --when-busy queue.",
            ),
            (
                "call cancel_agent_task with escalate=true to stop its workspace",
                "run 'fleet-mcp tasks cancel' with --escalate to stop its workspace",
            ),
            ("Correct 'members[0].chatId' and call again.", "Correct the member and try again."),
            ("Correct 'page_size' and call again.", "Correct --page-size and try again."),
            (
                "page_size is 0; it must be between 1 and 100",
                "--page-size is 0; it must be between 1 and 100",
            ),
            (
                "chat 'c' not found; omit chatId to start a new one",
                "chat 'c' not found; omit --chat to start a new one",
            ),
            ("Call squad_status without squadId.", "Run 'fleet-mcp squad status' without SQUAD."),
            ("project 'spec' not found", "project 'spec' not found"),
            ("project 'when_busy' not found", "project 'when_busy' not found"),
        ];
        for (advice, reworded) in cases {
            assert_eq!(for_operators(advice), reworded);
        }
    }

    #[test]
    fn every_command_named_in_advice_exists() {
        for (_, words) in COMMANDS {
            let mut command = &crate::cli::Cli::command();
            for word in words.split(' ').skip(1).filter(|word| !word.starts_with("--")) {
                command = command.find_subcommand(word).expect(words);
            }
        }
    }
}
