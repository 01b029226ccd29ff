//! The files that a start of an agent gets, and their encoding for the transfer.

use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::domain::budget::{Budget, Usd};
use crate::domain::provision::{AGENT_SERVER, MCP_FILE, ROLE_FILE, TOKEN_FILE};

/// The environment variable from which Codex reads the token; its configuration cannot hold one.
const TOKEN_VARIABLE: &str = "FLEET_TOKEN";
/// Waiting tools respond within 45 seconds; blocking runs may take minutes.
const TOOL_SECONDS: i64 = 600;

/// The contents of an agent's files.
#[derive(Debug)]
pub(super) struct AgentFiles<'a> {
    pub(super) token: &'a SecretString,
    pub(super) url: &'a str,
    pub(super) prompt: &'a str,
    pub(super) budget: Budget,
}

impl AgentFiles<'_> {
    /// The input of the script that writes the files: per file a header with its number of lines, then those lines.
    /// The last line proves that the input is complete.
    pub(super) fn input(&self) -> Bytes {
        let mut input = String::new();
        for (name, text) in self.files() {
            let text = text.trim_end_matches('\n');
            input.push_str(&format!("file {name} {}\n{text}\n", text.split('\n').count()));
        }
        input.push_str("end\n");
        Bytes::from(input)
    }

    fn files(&self) -> [(&'static str, String); 6] {
        [
            (TOKEN_FILE, self.token.expose_secret().to_owned()),
            ("url", self.url.to_owned()),
            (ROLE_FILE, self.prompt.to_owned()),
            (MCP_FILE, self.mcp_json()),
            ("config.toml", config_toml(self.url)),
            ("budget.json", self.budget_json()),
        ]
    }

    /// In the format of Claude Code.
    fn mcp_json(&self) -> String {
        let bearer = format!("Bearer {}", self.token.expose_secret());
        let server =
            json!({ "type": "http", "url": mcp_url(self.url), "headers": { "Authorization": bearer } });
        json!({ "mcpServers": { AGENT_SERVER: server } }).to_string()
    }

    fn budget_json(&self) -> String {
        let Budget { max_cost, max_tokens } = self.budget;
        json!({ "max_cost_usd": max_cost.map(Usd::dollars), "max_tokens": max_tokens }).to_string()
    }
}

/// In the format of Codex. It fails tools that need approval, and ignores a missing server unless it is required.
pub(super) fn config_toml(url: &str) -> String {
    let mut fleet = toml::Table::new();
    fleet.insert("url".to_owned(), mcp_url(url).into());
    fleet.insert("bearer_token_env_var".to_owned(), TOKEN_VARIABLE.into());
    fleet.insert("default_tools_approval_mode".to_owned(), "approve".into());
    fleet.insert("required".to_owned(), true.into());
    fleet.insert("tool_timeout_sec".to_owned(), TOOL_SECONDS.into());
    let servers = toml::Table::from_iter([(AGENT_SERVER.to_owned(), fleet.into())]);
    toml::Table::from_iter([("mcp_servers".to_owned(), toml::Value::Table(servers))]).to_string()
}

fn mcp_url(url: &str) -> String {
    format!("{url}/mcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_files_are_exactly_these() {
        let token = SecretString::from("fleet_secret");
        let budget = Budget { max_cost: Usd::parse(2.5), max_tokens: None };
        let files = AgentFiles {
            token: &token,
            url: "http://127.0.0.1:3001",
            prompt: "You code.\n\nWell.\n",
            budget,
        };
        let text = String::from_utf8(files.input().to_vec()).unwrap();
        insta::assert_snapshot!(text);
    }
}
