//! Probes an agent's process over its socket.

use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::socket;

const PAUSE: Duration = Duration::from_millis(20);

/// Probes until the answer is positive; the socket sends no event for this.
pub(crate) async fn until_ready(socket: &Path, limit: Duration) {
    while !answers(socket, limit).await {
        tokio::time::sleep(PAUSE).await;
    }
}

pub(crate) async fn answers(socket: &Path, limit: Duration) -> bool {
    let answer = tokio::time::timeout(limit, status(socket)).await;
    matches!(answer, Ok(Some(StatusCode::OK)))
}

async fn status(socket: &Path) -> Option<StatusCode> {
    let stream = socket::connect(socket).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::get("/status").header(header::HOST, "localhost").body(Body::empty()).ok()?;
    tokio::select! {
        answer = sender.send_request(request) => answer.ok().map(|answer| answer.status()),
        _ = connection => None,
    }
}
