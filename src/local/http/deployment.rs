//! Endpoints about the deployment and its organization; checks user and organization in paths.

use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::answer::{Answer, Refusal, ok};
use super::auth::SignedIn;
use crate::local::{Deployment, shape};

pub(super) async fn build_info(State(state): State<Arc<Deployment>>) -> Answer {
    ok(&shape::build_info(&state.info))
}

pub(super) async fn organizations(State(state): State<Arc<Deployment>>, _: SignedIn) -> Answer {
    ok(&json!([shape::organization(&state.info)]))
}

pub(super) fn check_user(state: &Deployment, user: &str) -> Result<(), Refusal> {
    if state.info.is_user(user) { Ok(()) } else { Err(Refusal::not_found()) }
}

pub(super) fn check_organization(state: &Deployment, organization: &str) -> Result<(), Refusal> {
    if state.info.is_organization(organization) { Ok(()) } else { Err(Refusal::not_found()) }
}
