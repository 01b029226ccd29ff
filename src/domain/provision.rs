//! Provisions: what an agent was given at its start, and when it is to be given anew.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};

use super::id::AgentId;
use super::word_enum::word_enum;

/// What clients call this server, in the entry that `connect` writes.
pub const CLIENT_SERVER: &str = "fleet";
/// What an agent's engine calls it. Engines merge their user's servers with those of a run by name, and a user who
/// connected the same CLI as a client has an entry with the other name.
pub const AGENT_SERVER: &str = "fleet_agent";
/// The agent's token alone, on one line.
pub const TOKEN_FILE: &str = "token";
/// Who the agent is.
pub const ROLE_FILE: &str = "role.md";
/// How Claude Code reaches the fleet; it holds the token.
pub const MCP_FILE: &str = "mcp.json";
/// How long an agent's token lives.
pub const TOKEN_LIFETIME: TimeDelta = TimeDelta::days(7);
/// A token with less than this left is replaced, so that an agent may run for weeks.
pub const RENEW_BEFORE: TimeDelta = TimeDelta::days(3);
/// An agent that could not reach us is tried again this often: the way to us may have opened.
pub const RETRY_UNREACHABLE: TimeDelta = TimeDelta::minutes(10);

/// What an agent was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provision {
    pub agent_id: AgentId,
    /// The start it was given at.
    pub generation: i64,
    /// The address of ours it was told.
    pub url: String,
    pub callback: Callback,
    pub token_expires_at: DateTime<Utc>,
    pub at: DateTime<Utc>,
}

word_enum! {
    /// How an agent reaches this server, as tried from inside its workspace. Direct: it reached our address.
    /// Unreachable: it could not. Unknown: it has nothing to try with.
    Callback {
        Direct = "direct",
        Unreachable = "unreachable",
        Unknown = "unknown",
    }
}

impl Provision {
    /// Is it what an agent of this start, told this address, should have?
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
