//! Endpoints about the deployment, its user and its organization.

use std::sync::Arc;

use axum::extract::{Path, State};
use bytes::Bytes;
use chrono::{TimeDelta, Utc};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Refusal, Validation, created, object, ok};
use super::auth::SignedIn;
use crate::local::deployment_info::DeploymentRecord;
use crate::local::token::{self, LONGEST_LIFE, StoredToken};
use crate::local::{Deployment, shape};

pub(super) async fn healthz() -> &'static str {
    "OK"
}

pub(super) async fn build_info(State(state): State<Arc<Deployment>>) -> Answer {
    ok(&shape::build_info(&state.info))
}

pub(super) async fn user(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(user): Path<String>,
) -> Answer {
    check_user(&state, &user)?;
    ok(&shape::user(&state.info))
}

pub(super) async fn organizations(State(state): State<Arc<Deployment>>, _: SignedIn) -> Answer {
    ok(&json!([shape::organization(&state.info)]))
}

pub(super) async fn user_organizations(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(user): Path<String>,
) -> Answer {
    check_user(&state, &user)?;
    ok(&json!([shape::organization(&state.info)]))
}

/// Valid tokens that were created here, without their secrets.
pub(super) async fn tokens(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(user): Path<String>,
) -> Answer {
    check_user(&state, &user)?;
    state.read(|memory| {
        let valid = memory.record.tokens.iter().filter(|token| token.expires_at > Utc::now());
        ok(&valid.map(|token| shape::token(&state.info, token)).collect::<Value>())
    })
}

pub(super) async fn token_config(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(user): Path<String>,
) -> Answer {
    check_user(&state, &user)?;
    ok(&json!({ "max_token_lifetime": LONGEST_LIFE.num_nanoseconds() }))
}

/// Creates a further token of the one user; the response is the only one that shows it.
pub(super) async fn token_create(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(user): Path<String>,
    body: Bytes,
) -> Answer {
    check_user(&state, &user)?;
    let body = object(&body)?;
    let (key, lifetime) = (token::generate(), lifetime(&body)?);
    let name = body.get("token_name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let stored = StoredToken::new(name, &key, lifetime);
    let ((), saving) = state.change_record(|record| add_token(record, stored))?;
    saving.done().await?;
    created(&json!({ "key": key }))
}

pub(super) fn check_user(state: &Deployment, user: &str) -> Result<(), Refusal> {
    if state.info.is_user(user) { Ok(()) } else { Err(Refusal::not_found()) }
}

pub(super) fn check_organization(state: &Deployment, organization: &str) -> Result<(), Refusal> {
    if state.info.is_organization(organization) { Ok(()) } else { Err(Refusal::not_found()) }
}

/// In nanoseconds; by default the longest lifetime.
fn lifetime(body: &Map<String, Value>) -> Result<TimeDelta, Refusal> {
    let nanoseconds = body.get("lifetime").and_then(Value::as_i64).filter(|given| *given > 0);
    let lifetime = nanoseconds.map_or(LONGEST_LIFE, TimeDelta::nanoseconds);
    if lifetime <= LONGEST_LIFE {
        return Ok(lifetime);
    }
    Err(Refusal::new(StatusCode::BAD_REQUEST, "Failed to validate create API key request.")
        .detail("lifetime must be less than 168h0m0s"))
}

fn add_token(record: &mut DeploymentRecord, token: StoredToken) -> Result<(), Refusal> {
    record.tokens.retain(|known| known.expires_at > Utc::now());
    if !token.name.is_empty() && record.tokens.iter().any(|known| known.name == token.name) {
        let message = format!("A token with name \"{}\" already exists.", token.name);
        let row = Validation::new("name", "This value is already in use and should be unique.");
        return Err(Refusal::new(StatusCode::CONFLICT, &message).validations(&[row]));
    }
    record.tokens.push(token);
    Ok(())
}
