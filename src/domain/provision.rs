//! Provisions: what an agent got at its start, and when it must be renewed.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};

use super::id::AgentId;
use super::word_enum::word_enum;

/// This server's name in client configurations, as written by `connect`.
pub const CLIENT_SERVER: &str = "fleet";
/// This server's name for an agent's engine. Engines merge their user's servers with those of a run by name, and a
/// user who connected the same CLI as a client has an entry with the other name.
pub const AGENT_SERVER: &str = "fleet_agent";
/// The agent's token, on one line.
pub const TOKEN_FILE: &str = "token";
/// The agent's role prompt.
pub const ROLE_FILE: &str = "role.md";
/// Claude Code's MCP configuration; it contains the token.
pub const MCP_FILE: &str = "mcp.json";
/// The lifetime of an agent's token.
pub const TOKEN_LIFETIME: TimeDelta = TimeDelta::days(7);
/// A token with less than this left is replaced, so that an agent may run for weeks.
pub const RENEW_BEFORE: TimeDelta = TimeDelta::days(3);
/// An agent that could not reach us is provisioned again this often: the network may have changed.
pub const RETRY_UNREACHABLE: TimeDelta = TimeDelta::minutes(10);

/// An agent's provision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provision {
    pub agent_id: AgentId,
    /// The start it belongs to.
    pub generation: i64,
    /// Our URL as given to the agent.
    pub url: String,
    pub callback: Callback,
    pub token_expires_at: DateTime<Utc>,
    pub at: DateTime<Utc>,
}

word_enum! {
    /// How an agent reaches this server, as tested from inside its workspace. Direct: it reached our URL.
    /// Unreachable: it could not. Unknown: it has no tool for the test.
    Callback {
        Direct = "direct",
        Unreachable = "unreachable",
        Unknown = "unknown",
    }
}

impl Provision {
    /// Whether it is current for an agent of this start with this URL.
    pub fn serves(&self, generation: i64, url: &str, now: DateTime<Utc>) -> bool {
        let is_worth_retrying = match self.callback {
            Callback::Unreachable => now - self.at >= RETRY_UNREACHABLE,
            Callback::Direct | Callback::Unknown => false,
        };
        self.generation == generation
            && self.url == url
            && self.token_expires_at - now >= RENEW_BEFORE
            && !is_worth_retrying
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_given_anew_what_is_of_another_start_or_address_or_about_to_end() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let good = Provision {
            agent_id: AgentId(uuid::Uuid::nil()),
            generation: 3,
            url: "http://here".into(),
            callback: Callback::Direct,
            token_expires_at: now + TOKEN_LIFETIME,
            at: now,
        };
        let serves =
            |provision: &Provision, later: TimeDelta| provision.serves(3, "http://here", now + later);
        assert!(serves(&good, TimeDelta::zero()));
        assert!(!good.serves(4, "http://here", now));
        assert!(!good.serves(3, "http://elsewhere", now));
        assert!(serves(&good, TOKEN_LIFETIME - RENEW_BEFORE));
        assert!(!serves(&good, TOKEN_LIFETIME - RENEW_BEFORE + TimeDelta::seconds(1)));
        let unreachable = Provision { callback: Callback::Unreachable, ..good.clone() };
        assert!(serves(&unreachable, TimeDelta::minutes(9)));
        assert!(!serves(&unreachable, RETRY_UNREACHABLE));
        assert!(serves(&Provision { callback: Callback::Unknown, ..good }, RETRY_UNREACHABLE));
    }
}
