//! Coder's JSON: only the fields that matter; unknown ones are ignored.
//!
//! Every type can be read and written, so that the embedded Coder can use the same shapes. Statuses stay strings,
//! since a newer server may have further ones.

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
