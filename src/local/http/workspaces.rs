//! Endpoints that list and show workspaces.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use http::StatusCode;
use serde_json::{Value, json};

use super::answer::{Answer, Refusal, Validation, ok, uuid};
use super::auth::SignedIn;
use super::deployment::check_user;
use super::search::Search;
use crate::local::memory::Memory;
use crate::local::record::Workspace;
use crate::local::{Deployment, shape};

type Parameters = Query<HashMap<String, String>>;

pub(super) async fn list(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Query(query): Parameters,
) -> Answer {
    let search = Search::parse(query.get("q").map(String::as_str).unwrap_or_default())?;
    let limit = page_number(&query, "limit")?.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let offset = page_number(&query, "offset")?.unwrap_or_default();
    let body = state.read(|memory| {
        let all = memory.workspaces.values();
        let mut found: Vec<&Workspace> = all.filter(|workspace| search.finds(&state, workspace)).collect();
        found.sort_by_cached_key(|workspace| order(workspace));
        let page = found.iter().skip(offset).take(limit);
        let rows: Vec<Value> = page.map(|workspace| row(&state, memory, workspace, &search)).collect();
        json!({ "workspaces": rows, "count": found.len() })
    });
    ok(&body)
}

pub(super) async fn show(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    Query(query): Parameters,
) -> Answer {
    let id = uuid(&id)?;
    state.read(|memory| {
        let workspace = memory.workspaces.get(&id).ok_or_else(Refusal::not_found)?;
        if workspace.is_deleted && !includes_deleted(&query) {
            let message = format!(
                "Workspace \"{id}\" was deleted, you can view this workspace by specifying \
                 '?include_deleted=true' and trying again."
            );
            return Err(Refusal::new(StatusCode::GONE, &message));
        }
        ok(&shape::workspace(&state, memory, workspace))
    })
}

pub(super) async fn show_by_name(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path((user, name)): Path<(String, String)>,
    Query(query): Parameters,
) -> Answer {
    check_user(&state, &user)?;
    state.read(|memory| {
        let found = if includes_deleted(&query) { memory.any_named(&name) } else { memory.live_named(&name) };
        ok(&shape::workspace(&state, memory, found.ok_or_else(Refusal::not_found)?))
    })
}

/// Parses Coder's page numbers, with its error messages.
pub(super) fn page_number(query: &HashMap<String, String>, name: &str) -> Result<Option<usize>, Refusal> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let problem = match text.parse::<i32>() {
        Ok(number) => match usize::try_from(number) {
            Ok(number) => return Ok(Some(number)),
            Err(_) => "value is negative".to_owned(),
        },
        Err(_) => format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"),
    };
    let detail = format!("Query param \"{name}\" must be a valid 32-bit positive integer: {problem}");
    Err(Refusal::new(StatusCode::BAD_REQUEST, "Query parameters have invalid values.")
        .validations(&[Validation::new(name, &detail)]))
}

/// Running ones first, then by name.
fn order(workspace: &Workspace) -> (bool, String) {
    let is_running = workspace.latest().is_some_and(|latest| latest.status() == "running");
    (!is_running, workspace.name.to_lowercase())
}

/// A row includes the metadata that the search asked for.
fn row(state: &Deployment, memory: &Memory, workspace: &Workspace, search: &Search) -> Value {
    let mut row = shape::workspace(state, memory, workspace);
    let items = memory.metadata.get(&workspace.id).into_iter().flatten();
    let asked = items.filter(|item| search.wants_metadata(&item.key));
    let asked: Vec<Value> = asked.map(|item| shape::metadata(item, "")).collect();
    if let Some(agent) = row.pointer_mut("/latest_build/resources/0/agents/0")
        && !asked.is_empty()
    {
        agent["metadata"] = json!(asked);
    }
    row
}

fn includes_deleted(query: &HashMap<String, String>) -> bool {
    query.get("include_deleted").is_some_and(|value| value == "true")
}
