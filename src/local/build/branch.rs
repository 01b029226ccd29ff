//! Names the refs of an agent in the caller's repository.
//!
//! The branch is for people. Two refs of ours accompany it: `refs/fleet/agents/` holds the agent's newest commit,
//! so that its objects are not pruned; `refs/fleet/published/` holds the commit that the server last put on the
//! branch, so that commits of other authors are detected.

use crate::local::record::Workspace;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Branch {
    /// `fleet/otter`
    pub(crate) short: String,
    pub(crate) head: String,
    pub(crate) agent: String,
    pub(crate) published: String,
}

impl Branch {
    pub(crate) fn of(workspace: &Workspace) -> Self {
        Self::named(&workspace.name)
    }

    pub(crate) fn named(name: &str) -> Self {
        Self {
            short: format!("fleet/{name}"),
            head: format!("refs/heads/fleet/{name}"),
            agent: format!("refs/fleet/agents/{name}"),
            published: format!("refs/fleet/published/{name}"),
        }
    }

    /// The ref that keeps commits which could not be put on the branch before the agent was deleted.
    pub(crate) fn kept(&self, commit: &str) -> String {
        format!("{}/{}", self.agent.replacen("agents", "kept", 1), short_id(commit))
    }

    /// Holds the head of a pull request between the fetch and the start of the branch.
    pub(crate) fn pulled(&self) -> String {
        self.agent.replacen("agents", "pulls", 1)
    }

    /// The new name of a branch that existed before this agent; agent names contain no dot.
    pub(crate) fn earlier(&self, commit: &str) -> String {
        format!("{}.{}", self.short, short_id(commit))
    }
}

pub(crate) fn short_id(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
