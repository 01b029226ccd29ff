//! Roles: a persona and the kind of rights that go with it.

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
    /// Narrows what the settings let an agent of this role spend.
    pub budget: Budget,
    /// The persona, given to the agent as its system prompt.
    pub prompt: String,
}

word_enum! {
    /// What a principal of this role may do; see [`super::access`].
    RoleKind {
        Operator = "operator",
        Manager = "manager",
        Coding = "coding",
        Review = "review",
        Planning = "planning",
    }
}

/// The role an agent gets when none is named.
pub const DEFAULT_ROLE: &str = "coder";
