//! Translates the server's advice, which names tools, into commands for operators.

const COMMANDS: [(&str, &str); 17] = [
    ("cancel_agent_task", "fleet-mcp tasks cancel"),
    ("cancel_operation", "fleet-mcp operations cancel"),
    ("create_agent", "fleet-mcp agents create"),
    ("delete_agent", "fleet-mcp agents delete"),
    ("fleet_status", "fleet-mcp status"),
    ("list_agent_projects", "fleet-mcp projects"),
    ("list_agent_roles", "fleet-mcp roles"),
    ("list_agents", "fleet-mcp agents list"),
    ("list_operations", "fleet-mcp operations list"),
    ("restart_agent", "fleet-mcp agents restart"),
    ("show_agent", "fleet-mcp agents show"),
    ("show_agent_log", "fleet-mcp agents logs"),
    ("show_agent_task_history", "fleet-mcp agents history"),
    ("start_agent", "fleet-mcp agents start"),
    ("start_agent_task", "fleet-mcp tasks start"),
    ("stop_agent", "fleet-mcp agents stop"),
    ("wait_for_agents", "fleet-mcp agents list --watch"),
];

/// Replaces whole words only: `start_agent_task` does not contain `start_agent`.
pub(crate) fn for_operators(advice: &str) -> String {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    let mut said = String::new();
    let mut rest = advice;
    while let Some(start) = rest.find(is_inside) {
        let (before, from_word) = rest.split_at(start);
        let end = from_word.find(|c| !is_inside(c)).unwrap_or(from_word.len());
        let (word, after) = from_word.split_at(end);
        said.push_str(before);
        said.push_str(&command_of(word));
        rest = after;
    }
    said.push_str(rest);
    said.replace("Call '", "Run '").replace("call '", "run '").replace("call again", "try again")
}

fn command_of(word: &str) -> String {
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
            (
                "Call list_agents to see the agents there are.",
                "Run 'fleet-mcp agents list' to see the agents there are.",
            ),
            (
                "Call show_agent for 'x', then restart_agent or delete_agent.",
                "Run 'fleet-mcp agents show' for 'x', then 'fleet-mcp agents restart' or 'fleet-mcp agents delete'.",
            ),
            ("Correct 'spec' and call again.", "Correct 'spec' and try again."),
            ("made; call wait_for_agents to know", "made; run 'fleet-mcp agents list --watch' to know"),
            ("Call start_agent_task again", "Run 'fleet-mcp tasks start' again"),
            ("report_status is for agents", "report_status is for agents"),
            ("", ""),
        ];
        for (advice, said) in cases {
            assert_eq!(for_operators(advice), said);
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
