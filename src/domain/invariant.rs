//! The invariants that hold under every fault; `doctor` has one check for each.

/// A statement that must always hold for a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    NothingLost,
    NoDuplicates,
    NoOrphans,
    NoZombieWork,
    LegalTransitions,
    Audited,
    WithinBudget,
    NoSecrets,
    Integrity,
    DeniedWithoutEffect,
}

impl Invariant {
    pub const ALL: [Self; 10] = [
        Self::NothingLost,
        Self::NoDuplicates,
        Self::NoOrphans,
        Self::NoZombieWork,
        Self::LegalTransitions,
        Self::Audited,
        Self::WithinBudget,
        Self::NoSecrets,
        Self::Integrity,
        Self::DeniedWithoutEffect,
    ];

    /// The name of its check; part of the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingLost => "invariant.i1",
            Self::NoDuplicates => "invariant.i2",
            Self::NoOrphans => "invariant.i3",
            Self::NoZombieWork => "invariant.i4",
            Self::LegalTransitions => "invariant.i5",
            Self::Audited => "invariant.i6",
            Self::WithinBudget => "invariant.i7",
            Self::NoSecrets => "invariant.i8",
            Self::Integrity => "invariant.i9",
            Self::DeniedWithoutEffect => "invariant.i10",
        }
    }

    /// The statement of the invariant.
    pub fn statement(self) -> &'static str {
        match self {
            Self::NothingLost => "accepted work is recorded and makes progress",
            Self::NoDuplicates => "no agent, task or squad member is executed twice",
            Self::NoOrphans => "every workspace and directory belongs to an agent",
            Self::NoZombieWork => "every process belongs to running work, and running work has its process",
            Self::LegalTransitions => "every record made only legal state changes",
            Self::Audited => "every operation has its row in the audit trail",
            Self::WithinBudget => "no agent has spent more than its budget",
            Self::NoSecrets => "no token is stored in the database or the log",
            Self::Integrity => "the database is intact",
            Self::DeniedWithoutEffect => "no refused call had an effect",
        }
    }

    /// Advice for a violation.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::NothingLost => {
                "Run doctor again in a minute. If the problem stays, restart the server, then cancel the \
                operation with 'fleet-mcp operations cancel'."
            }
            Self::NoDuplicates => "Delete the duplicate agent, then create it again.",
            Self::NoOrphans => "Restart the server, then delete the reported leftovers by hand.",
            Self::NoZombieWork => "Run 'fleet-mcp agents restart' for the reported agent.",
            Self::LegalTransitions => {
                "Stop the server, restore the newest backup and report the old file as a defect."
            }
            Self::Audited => "Restart the server to write the missing rows.",
            Self::WithinBudget => {
                "Stop the agent, or raise max_cost_usd or max_tokens ([agents] in fleet.toml, or its role file) and \
                restart the server."
            }
            Self::NoSecrets => {
                "Revoke that token ('fleet-mcp token revoke'); restart an agent to give it a new one."
            }
            Self::Integrity => "Stop the server and restore the newest backup.",
            Self::DeniedWithoutEffect => {
                "Revoke the token that made the call and report the database as a defect."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_numbers_of_the_invariants() {
        let expected: Vec<String> = (1..=10).map(|number| format!("invariant.i{number}")).collect();
        assert_eq!(Invariant::ALL.map(Invariant::name).to_vec(), expected);
    }
}
