//! Calls about the deployment itself: version and organizations.

use super::operation::{BUILD_INFO, ORGANIZATIONS};
use super::request::{Auth, Request};
use super::wire::{BuildInfo, Organization};
use super::{Client, CoderError};

impl Client {
    /// Requires no token, so it distinguishes "unreachable" from "unauthorized".
    pub async fn build_info(&self) -> Result<BuildInfo, CoderError> {
        self.call(Request::new(&BUILD_INFO, &[]).auth(Auth::None)).await
    }

    pub async fn organizations(&self) -> Result<Vec<Organization>, CoderError> {
        self.call_list(Request::new(&ORGANIZATIONS, &[])).await
    }
}
