//! Whether a token is valid, and which of its conditions fails.

use std::fmt;

use chrono::{DateTime, Utc};
use thiserror::Error;

use super::agent::AgentStatus;
use super::role::RoleKind;
use super::word_enum::word_enum;
use super::words::Transition;

/// Limit on names of tokens and in the audit trail: enough for any name and id, and shorter than a token.
pub const LONGEST_NAME: usize = 40;

word_enum! {
    /// Whose token it is.
    TokenKind {
        Operator = "operator",
        Manager = "manager",
        Agent = "agent",
    }
}

impl TokenKind {
    /// An agent's token has the kind of a role, which is found out with the role.
    pub fn role_kind(self) -> Option<RoleKind> {
        match self {
            Self::Operator => Some(RoleKind::Operator),
            Self::Manager => Some(RoleKind::Manager),
            Self::Agent => None,
        }
    }
}

/// The conditions of a token's validity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenLife {
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
    pub holder: Holder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    Person,
    /// Its token is valid for one start of its workspace.
    Agent {
        /// The start it was made for; none for tokens from before starts were counted.
        generation: Option<i64>,
        /// The agent's current state; none if it is gone.
        standing: Option<AgentStanding>,
    },
}

/// The current state of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStanding {
    pub status: AgentStatus,
    pub generation: i64,
    /// The newest build's transition, if observed: a failed stop has ended the agent too.
    pub transition: Option<Transition>,
}

/// Why a token is refused. Only holders of a token of ours get the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("the token is unknown, expired or revoked")]
    Unknown,
    #[error("the token was revoked")]
    Revoked,
    #[error("the token has expired")]
    Expired,
    #[error("the agent of this token is deleted")]
    AgentGone,
    #[error("the agent of this token is stopped")]
    AgentStopped,
    #[error("the agent of this token was restarted and has a new token")]
    StartedAnew,
}

impl Refusal {
    /// The next action.
    pub fn next_action(self) -> &'static str {
        match self {
            Self::Unknown | Self::Revoked | Self::Expired | Self::AgentGone => {
                "Ask an operator for a new token ('fleet-mcp token create')."
            }
            Self::AgentStopped => "Ask an operator to start the agent: it gets a new token then.",
            Self::StartedAnew => "Read the agent's new token from $FLEET_AGENT_DIR/token.",
        }
    }
}

impl TokenLife {
    pub fn check(&self, now: DateTime<Utc>) -> Result<(), Refusal> {
        if self.revoked_at.is_some() {
            return Err(Refusal::Revoked);
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::Expired);
        }
        match &self.holder {
            Holder::Person => Ok(()),
            Holder::Agent { standing: None, .. } => Err(Refusal::AgentGone),
            Holder::Agent { generation, standing: Some(standing) } => standing.check(*generation),
        }
    }
}

impl AgentStanding {
    /// Whether the agent is stopped or stopping.
    pub fn is_stopped(&self) -> bool {
        let is_ending = match &self.transition {
            Some(Transition::Stop | Transition::Delete) => true,
            Some(Transition::Start | Transition::Unknown(_)) | None => false,
        };
        is_ending
            || match self.status {
                AgentStatus::Stopping | AgentStatus::Stopped => true,
                AgentStatus::Deleting | AgentStatus::Deleted => true,
                AgentStatus::Pending | AgentStatus::Starting | AgentStatus::Busy | AgentStatus::Idle => false,
                AgentStatus::Failed | AgentStatus::Canceling | AgentStatus::Canceled => false,
            }
    }

    /// The start for which a token made now is valid; for an agent being created, its first.
    pub fn coming_generation(&self) -> i64 {
        self.generation.max(1)
    }

    fn check(&self, generation: Option<i64>) -> Result<(), Refusal> {
        if self.is_stopped() {
            return Err(Refusal::AgentStopped);
        }
        match generation {
            Some(generation) if generation >= self.generation => Ok(()),
            Some(_) | None => Err(Refusal::StartedAnew),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn agent_token(generation: Option<i64>, standing: Option<AgentStanding>) -> Result<(), Refusal> {
        let holder = Holder::Agent { generation, standing };
        TokenLife { expires_at: None, revoked_at: None, holder }.check(now())
    }

    fn standing(status: AgentStatus, transition: Transition) -> Option<AgentStanding> {
        Some(AgentStanding { status, generation: 3, transition: Some(transition) })
    }

    #[test]
    fn a_persons_token_lives_until_it_expires_or_is_revoked() {
        let life = |expires_in: Option<i64>, revoked_at: Option<DateTime<Utc>>| {
            let expires_at = expires_in.map(|seconds| now() + TimeDelta::seconds(seconds));
            TokenLife { expires_at, revoked_at, holder: Holder::Person }.check(now())
        };
        assert_eq!(life(None, None), Ok(()));
        assert_eq!(life(Some(1), None), Ok(()));
        assert_eq!(life(Some(0), None), Err(Refusal::Expired));
        assert_eq!(life(Some(-1), Some(now())), Err(Refusal::Revoked));
    }

    #[test]
    fn an_agents_token_lives_with_one_start_of_it() {
        let running = standing(AgentStatus::Idle, Transition::Start);
        assert_eq!(agent_token(Some(3), running.clone()), Ok(()));
        assert_eq!(agent_token(Some(2), running.clone()), Err(Refusal::StartedAnew));
        assert_eq!(agent_token(None, running), Err(Refusal::StartedAnew));
        assert_eq!(agent_token(Some(3), None), Err(Refusal::AgentGone));
    }

    #[test]
    fn every_status_either_keeps_an_agents_token_alive_or_ends_it() {
        let dead: Vec<AgentStatus> = AgentStatus::ALL
            .iter()
            .copied()
            .filter(|status| agent_token(Some(3), standing(*status, Transition::Start)).is_err())
            .collect();
        let expected =
            [AgentStatus::Stopping, AgentStatus::Stopped, AgentStatus::Deleting, AgentStatus::Deleted];
        assert_eq!(dead, expected);
        for status in AgentStatus::ALL {
            for transition in [Transition::Stop, Transition::Delete] {
                let refused = agent_token(Some(3), standing(*status, transition));
                assert_eq!(refused, Err(Refusal::AgentStopped), "{status}");
            }
        }
    }
}
