//! One request and response over a new connection to an app.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::local::socket;

/// A local socket answers at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Sends the request. The response body moves only while the connection is polled, so both are returned.
pub(super) async fn exchange(
    request: Request,
    socket: &Path,
) -> io::Result<(Response<Incoming>, Connection)> {
    let stream = timeout(CONNECT_LIMIT, connect(socket)).await.map_err(io::Error::other)??;
    let (mut sender, mut connection) = handshake(stream).await?;
    let response = connection.drive(sender.send_request(request)).await.map_err(io::Error::other)?;
    Ok((response, connection))
}

/// The connection's work: writing the request and reading the response. Its holder polls it, so no spawned task
/// outlives the client, and a client that disconnects closes the connection to the app.
pub(super) struct Connection {
    work: Option<BoxFuture<'static, ()>>,
}

impl Connection {
    /// The response body, which polls the connection as it is read.
    pub(super) fn carry(self, body: Incoming) -> AppBody {
        AppBody { connection: self, body }
    }

    /// Returns when there is no more to do, which after an upgrade is at once.
    pub(super) async fn finished(self) {
        if let Some(work) = self.work {
            work.await;
        }
    }

    /// Polls the connection while waiting for a future that depends on it.
    async fn drive<F: Future>(&mut self, other: F) -> F::Output {
        let mut other = pin!(other);
        poll_fn(|context| {
            self.poll(context);
            other.poll_unpin(context)
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        if let Some(work) = &mut self.work
            && work.poll_unpin(context).is_ready()
        {
            self.work = None;
        }
    }
}

/// A response body together with its connection.
pub(super) struct AppBody {
    connection: Connection,
    body: Incoming,
}

impl hyper::body::Body for AppBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.connection.poll(context);
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// On a Unix socket, an app with a full accept queue refuses at once, where TCP would wait.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    loop {
        match socket::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(CONNECT_PAUSE).await,
            result => return result,
        }
    }
}

async fn handshake<S>(stream: S) -> io::Result<(SendRequest<Body>, Connection)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Errors also surface in the response or its body.
    let work = connection.with_upgrades().map(|_| ()).boxed();
    Ok((sender, Connection { work: Some(work) }))
}
