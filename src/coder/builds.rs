//! Calls about builds: create, follow, cancel.

use uuid::Uuid;

use super::operation::{BUILD_CANCEL, BUILD_CREATE, BUILD_LOGS, BUILD_PARAMETERS, WORKSPACE_BUILDS};
use super::request::Request;
use super::wire::{Build, BuildLog, CreateBuild, ParameterValue};
use super::workspaces::Page;
use super::{Client, CoderError};

impl Client {
    /// Newest first. Builds other than the newest have lost their agents.
    pub async fn workspace_builds(&self, workspace: Uuid, page: Page) -> Result<Vec<Build>, CoderError> {
        self.call_list(page.apply_to(Request::new(&WORKSPACE_BUILDS, &[&workspace]))).await
    }

    /// Coder refuses a second build while one is active, but not a stop of what is stopped.
    pub async fn build_create(&self, workspace: Uuid, build: &CreateBuild) -> Result<Build, CoderError> {
        self.call(Request::new(&BUILD_CREATE, &[&workspace]).json(build)?).await
    }

    /// Requests a cancel; the build ends when its provisioner has noticed.
    pub async fn build_cancel(&self, build: Uuid) -> Result<(), CoderError> {
        self.call_done(Request::new(&BUILD_CANCEL, &[&build])).await
    }

    pub async fn build_parameters(&self, build: Uuid) -> Result<Vec<ParameterValue>, CoderError> {
        self.call_list(Request::new(&BUILD_PARAMETERS, &[&build])).await
    }

    /// The log so far, after the line with the given id.
    pub async fn build_logs(&self, build: Uuid, after: Option<i64>) -> Result<Vec<BuildLog>, CoderError> {
        self.call_list(Request::new(&BUILD_LOGS, &[&build]).query_some("after", after)).await
    }
}
