//! What Coder says and hears as JSON: only the fields that matter, unknown ones ignored.
//!
//! Every type both reads and writes, so a server that imitates Coder can use the same shapes. Status words
//! stay strings, because a newer server may know more words than we do.

mod agent;
mod app;
mod build;
mod deployment;
mod lenient;
mod template;
mod workspace;

pub use agent::{
    AgentHealth, AgentMetadata, MetadataDescription, MetadataResult, Resource, ResourceMetadata,
    WorkspaceAgent,
};
pub use app::{App, AppStatus, AppStatusReport};
pub use build::{Build, BuildLog, CreateBuild, FollowUp, Job, ParameterValue, Transition};
pub use deployment::{BuildInfo, Organization};
pub use template::{ParameterOption, Preset, PresetParameter, RichParameter, Template};
pub use workspace::{CreateWorkspace, Workspace, WorkspaceHealth};
