//! Logs of builds and of agents: all there is so far, or followed over a WebSocket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, Query, State};
use serde_json::{Value, json};
use uuid::Uuid;

use super::agents::{find, log_file};
use super::answer::{Answer, Refusal, ok, uuid};
use super::auth::SignedIn;
use crate::local::{Deployment, agent_files, shape};

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// A file announces nothing, so it is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn of_build(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    upgrade: Upgrade,
) -> Answer {
    let (id, after) = (uuid(&id)?, after(&query));
    let lines = build_lines(&state, id, after).ok_or_else(Refusal::not_found)?.0;
    if !is_followed(&query) {
        return ok(&Value::Array(lines));
    }
    Ok(upgrade?.on_upgrade(async move |socket| follow_build(state, id, after, socket).await))
}

pub(super) async fn of_agent(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    upgrade: Upgrade,
) -> Answer {
    let (id, after) = (uuid(&id)?, after(&query));
    let lines = agent_lines(&state, id, after).await?;
    if !is_followed(&query) {
        return ok(&Value::Array(lines));
    }
    Ok(upgrade?.on_upgrade(async move |socket| follow_agent(state, id, after, socket).await))
}

/// One object a frame; the server closes when the build is over.
async fn follow_build(state: Arc<Deployment>, id: Uuid, mut after: i64, mut socket: WebSocket) {
    let _running = state.tasks.token();
    let mut changes = state.changes();
    while let Some((lines, is_over)) = build_lines(&state, id, after) {
        for line in lines {
            after = line["id"].as_i64().unwrap_or(after);
            if socket.send(Message::Text(line.to_string().into())).await.is_err() {
                return;
            }
        }
        if is_over {
            break;
        }
        tokio::select! {
            // A watcher that fell behind looks again as well.
            _ = changes.recv() => {}
            () = state.stop.cancelled() => break,
        }
    }
    let done = CloseFrame { code: close_code::NORMAL, reason: "done".into() };
    // A client that is gone does not need to be told.
    let _told = socket.send(Message::Close(Some(done))).await;
}

/// An array a frame; it stays open, since an agent may always say more.
async fn follow_agent(state: Arc<Deployment>, id: Uuid, mut after: i64, mut socket: WebSocket) {
    let _running = state.tasks.token();
    while let Ok(lines) = agent_lines(&state, id, after).await {
        if let Some(last) = lines.last() {
            after = last["id"].as_i64().unwrap_or(after);
            if socket.send(Message::Text(json!(lines).to_string().into())).await.is_err() {
                return;
            }
            // There may be more than one look takes in.
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = state.stop.cancelled() => break,
        }
    }
    let _told = socket.send(Message::Close(None)).await;
}

/// The lines after this id, and whether there will be no more.
fn build_lines(state: &Deployment, id: Uuid, after: i64) -> Option<(Vec<Value>, bool)> {
    state.read(|memory| {
        let (_, build) = memory.build(id)?;
        let lines = build.logs.iter().filter(|line| line.id > after).map(shape::log_line).collect();
        Some((lines, !build.job.is_active()))
    })
}

async fn agent_lines(state: &Deployment, id: Uuid, after: i64) -> Result<Vec<Value>, Refusal> {
    let (path, start, at) = state.read(|memory| {
        let (workspace, agent) = find(memory, id)?;
        Ok::<_, Refusal>((log_file(state, workspace), agent.log_start, agent.created_at))
    })?;
    let after = u64::try_from(after).unwrap_or_default();
    let read = tokio::task::spawn_blocking(move || agent_files::read_lines(&path, start, after)).await;
    let lines = read.unwrap_or_default();
    Ok(lines.iter().map(|line| shape::agent_log(id, line.id, at, &line.text)).collect())
}

fn after(query: &HashMap<String, String>) -> i64 {
    query.get("after").and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn is_followed(query: &HashMap<String, String>) -> bool {
    query.contains_key("follow")
}
