//! Endpoints about templates, their parameters and presets.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use serde_json::Value;

use super::answer::{Answer, Refusal, ok, uuid};
use super::auth::SignedIn;
use super::deployment::check_organization;
use crate::local::template::Template;
use crate::local::{Deployment, shape, template_catalog};

pub(super) async fn list(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    template_catalog::refresh(&state).await;
    let exact = query.get("q").and_then(|q| q.strip_prefix("exact_name:"));
    let templates = state.catalog.templates();
    let wanted = templates.iter().filter(|template| exact.is_none_or(|name| template.name == name));
    ok(&wanted.map(|template| shape::template(&state.info, template)).collect::<Value>())
}

pub(super) async fn show_by_name(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path((organization, name)): Path<(String, String)>,
) -> Answer {
    check_organization(&state, &organization)?;
    template_catalog::refresh(&state).await;
    let template = state.template_named(&name).ok_or_else(Refusal::not_found)?;
    ok(&shape::template(&state.info, &template))
}

pub(super) async fn parameters(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
) -> Answer {
    let template = find_version(&state, &id)?;
    ok(&template.parameters.iter().map(shape::parameter).collect::<Value>())
}

pub(super) async fn presets(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
) -> Answer {
    ok(&shape::presets(&find_version(&state, &id)?.presets))
}

fn find_version(state: &Deployment, id: &str) -> Result<Arc<Template>, Refusal> {
    state.version(uuid(id)?).ok_or_else(Refusal::not_found)
}
