//! Identifiers as types, so that one kind of id is never passed for another.

use std::fmt;

use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id, ordered by time of creation.
            pub fn fresh() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

ids! {
    /// Our own id of an agent: it exists before the workspace does and outlives it.
    AgentId,
    /// Coder's id of a workspace.
    WorkspaceId,
    OperationId,
    /// The rescue of a deleted agent's work, also if it failed.
    RescueId,
    /// One process of an engine.
    RunId,
    SquadId,
    TaskId,
    TokenId,
}
