//! Roles: a persona and its access rights.

use super::budget::Budget;
use super::word_enum::word_enum;
use std::fmt;

/// A role as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// The file's stem.
    pub id: String,
    pub name: String,
    pub display_name: String,
    pub description: String,
    pub kind: RoleKind,
    /// Narrows the spending limits of the settings for this role.
    pub budget: Budget,
    /// The persona, used as the agent's system prompt.
    pub prompt: String,
}

word_enum! {
    /// The rights of a principal with this role; see [`super::access`].
    RoleKind {
        Operator = "operator",
        Manager = "manager",
        Coding = "coding",
        Review = "review",
        Planning = "planning",
    }
}

/// The role of an agent without an explicit one.
pub const DEFAULT_ROLE: &str = "coder";
