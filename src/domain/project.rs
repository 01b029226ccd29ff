//! Projects: a Coder template plus the defaults for agents made from it.

use std::collections::BTreeMap;

use super::word_enum::word_enum;
use std::fmt;

/// A project as its file describes it, or as derived from a qualifying template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub name: String,
    pub display_name: String,
    pub description: String,
    /// Name of the Coder template.
    pub template: String,
    /// Name of the organization that owns the template; none: any organization with that template.
    pub organization: Option<String>,
    /// Slug of the AgentAPI app.
    pub app_slug: Option<String>,
    pub default_role: String,
    pub repo: Option<String>,
    pub branch: Option<String>,
    pub engine: Option<String>,
    /// The container in its workspaces in which work is done.
    pub container: Option<String>,
    /// Its workspaces have no workspace agent and need none.
    pub agentless: bool,
    /// Values for template parameters that are not set otherwise.
    pub parameters: BTreeMap<String, String>,
    pub forge: Option<Forge>,
}

/// The server of the project's pull requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forge {
    pub kind: ForgeKind,
    pub api_url: Option<String>,
    pub repo: Option<String>,
}

word_enum! {
    ForgeKind {
        GitHub = "github",
        GitLab = "gitlab",
    }
}
