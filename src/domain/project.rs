//! Projects: a Coder template plus the defaults for agents made from it.

use std::collections::BTreeMap;

use super::word_enum::word_enum;
use std::fmt;

/// A project as its file describes it, or as a qualifying template implies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub name: String,
    pub display_name: String,
    pub description: String,
    /// Name of the Coder template.
    pub template: String,
    /// Name of the organization that owns the template; none: whichever has it.
    pub organization: Option<String>,
    /// Slug of the app that speaks AgentAPI.
    pub app_slug: Option<String>,
    pub default_role: String,
    pub repo: Option<String>,
    pub branch: Option<String>,
    pub engine: Option<String>,
    /// The container inside its workspaces where work is done.
    pub container: Option<String>,
    /// Its workspaces have no workspace agent and need none.
    pub agentless: bool,
    /// Values for template parameters that nothing else fills.
    pub parameters: BTreeMap<String, String>,
    pub forge: Option<Forge>,
}

/// Where the project's pull requests live.
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
