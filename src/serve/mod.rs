//! Serves connections within bounds: their number, the time for requests and responses, and the allowed Host and
//! Origin.

mod body;
mod open;
mod origin;
mod slots;
#[cfg(test)]
mod tests;
mod write_deadline;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::serve::Listener;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use body::GuardedBody;
pub use open::{OpenRequest, OpenRequests};
pub use origin::{Access, RefusedHeader};

use body::TimedBody;
use slots::{Busy, ConnectionSlot, ConnectionSlots};
use write_deadline::WriteDeadline;

/// For the whole head of a request, and between two requests of one connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// For the whole body of a request.
const BODY_TIME: Duration = Duration::from_secs(30);
/// For a part of a response that the client does not read.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// The open requests of one agent; a well-behaved agent needs few.
pub const MOST_OF_AGENT: usize = 16;
/// An agent that manages others sends requests for all of them.
pub const MOST_OF_MANAGING_AGENT: usize = 64;
/// The end of a response may still be in flight when its connection is closed.
const FLUSH_TIME: Duration = Duration::from_millis(50);
const MOST_CONNECTIONS: u64 = 4_096;
const FEWEST_CONNECTIONS: u64 = 16;
/// Each of the two servers of a process gets this fraction of its descriptors: half of them remain for git,
/// terminals and files.
const PART_OF_DESCRIPTORS: u64 = 4;

/// Resource limits for the connections of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub connections: usize,
    pub head_time: Duration,
    pub body_time: Duration,
    pub write_time: Duration,
}

impl ConnectionLimits {
    /// Derived from the descriptor limit of this process.
    pub fn of_process() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let connections = (descriptors / PART_OF_DESCRIPTORS).clamp(FEWEST_CONNECTIONS, MOST_CONNECTIONS);
        Self {
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            head_time: HEAD_TIME,
            body_time: BODY_TIME,
            write_time: WRITE_TIME,
        }
    }
}

/// Serves until `stop`; returns once the open requests have their responses. At the connection limit, the
/// connection that has been idle longest is closed for a new one.
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let slots = ConnectionSlots::new(limits.connections);
    let connections = TaskTracker::new();
    while let Some((io, slot)) = stop.run_until_cancelled(next(&mut listener, &slots)).await {
        connections.spawn(serve_connection(io, slot, router.clone(), (limits, stop.clone())));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn next<L: Listener>(listener: &mut L, slots: &Arc<ConnectionSlots>) -> (L::Io, Arc<ConnectionSlot>) {
    let (io, _address) = listener.accept().await;
    (io, slots.take().await)
}

/// Serves one connection. An upgraded connection is no longer counted: an upgrade requires the user's own token.
async fn serve_connection<I>(
    io: I,
    slot: Arc<ConnectionSlot>,
    router: Router,
    (limits, stop): (ConnectionLimits, CancellationToken),
) where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        let busy = Busy::begin(&slot);
        let answering = router.call(request.map(|body| TimedBody::new(body, limits.body_time)));
        async move { guarded(answering.await, busy) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
    let mut connection = pin!(
        http.serve_connection(TokioIo::new(WriteDeadline::new(io, limits.write_time)), service)
            .with_upgrades()
    );
    tokio::select! {
        ended = connection.as_mut() => return log_end(ended),
        () = slot.closing.cancelled() => {}
        () = stop.cancelled() => {}
    }
    if !slot.has_had_requests() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    if slot.is_busy() {
        log_end(connection.await);
    } else if let Ok(ended) = tokio::time::timeout(FLUSH_TIME, connection).await {
        log_end(ended);
    }
}

/// The connection is busy until the whole response is sent.
fn guarded(
    answered: Result<Response<Body>, Infallible>,
    busy: Busy,
) -> Result<Response<GuardedBody<Busy>>, Infallible> {
    answered.map(|response| response.map(|body| GuardedBody::new(body, busy)))
}

/// A client may end its connection in any way.
fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended");
    }
}
