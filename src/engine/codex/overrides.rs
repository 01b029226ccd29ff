//! Converts a configuration file for Codex to settings for its command line.
//!
//! The user's own file stays unchanged, and our settings apply to our runs only.

use toml::{Table, Value};

use crate::engine::InvocationError;

/// Keys that may hold secrets: other users of the machine can read a command line.
const SECRET: [&str; 2] = ["http_headers", "env"];

pub(super) fn of(text: &str) -> Result<Vec<String>, InvocationError> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| InvocationError::CodexConfig(error.message().to_owned()))?;
    let mut settings = Vec::new();
    flatten(&table, "", &mut settings);
    Ok(settings)
}

fn flatten(table: &Table, prefix: &str, settings: &mut Vec<String>) {
    for (key, value) in table.iter().filter(|(key, _)| !SECRET.contains(&key.as_str())) {
        let path = if prefix.is_empty() { name(key) } else { format!("{prefix}.{}", name(key)) };
        match value {
            Value::Table(inner) => flatten(inner, &path, settings),
            value => settings.push(format!("{path}={value}")),
        }
    }
}

fn name(key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { key.to_owned() } else { Value::String(key.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_becomes_one_setting_and_secrets_none() {
        let text = "[mcp_servers.fleet_agent]\nurl = \"http://127.0.0.1:3001/mcp\"\nrequired = true\n\
            tool_timeout_sec = 600\nenabled_tools = [\"a\", \"b\"]\nhttp_headers = { Authorization = \"Bearer x\" }\n\
            [mcp_servers.\"with space\"]\nurl = \"u\"\n";
        assert_eq!(
            of(text).unwrap(),
            [
                r#"mcp_servers.fleet_agent.enabled_tools=["a", "b"]"#,
                "mcp_servers.fleet_agent.required=true",
                "mcp_servers.fleet_agent.tool_timeout_sec=600",
                r#"mcp_servers.fleet_agent.url="http://127.0.0.1:3001/mcp""#,
                r#"mcp_servers."with space".url="u""#,
            ]
        );
        assert!(matches!(of("[half"), Err(InvocationError::CodexConfig(_))));
    }
}
