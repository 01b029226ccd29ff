//! Calls about the deployment itself: version, user, organizations.

use super::operation::{BUILD_INFO, ORGANIZATIONS, USER_ME};
use super::request::{Auth, Request};
use super::wire::{BuildInfo, Organization, User};
use super::{Client, CoderError};

impl Client {
    /// Needs no token, so it tells "unreachable" from "unauthorized".
    pub async fn build_info(&self) -> Result<BuildInfo, CoderError> {
        self.call(Request::new(&BUILD_INFO, &[]).auth(Auth::Nobody)).await
    }

    /// The token's user. A scoped token gets "not found" here although it is good for other calls.
    pub async fn user_me(&self) -> Result<User, CoderError> {
        self.call(Request::new(&USER_ME, &[])).await
    }

    pub async fn organizations(&self) -> Result<Vec<Organization>, CoderError> {
        self.call_list(Request::new(&ORGANIZATIONS, &[])).await
    }
}
