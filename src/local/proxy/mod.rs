//! Passes a request to an app of a workspace and its response back, including streams and WebSockets.

mod exchange;
mod headers;
mod page;

use std::path::Path;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use exchange::{Connection, exchange};

/// Forwards requests to apps, and tracks the WebSockets it opened.
#[derive(Debug, Default)]
pub struct AppProxy {
    relays: TaskTracker,
    stop: CancellationToken,
}

impl AppProxy {
    /// Sends the request to the app on this socket, under `rest_of_path` (still percent-encoded) and the same
    /// query.
    ///
    /// Coder's own cookies are removed; everything else is forwarded, including credentials in headers and query,
    /// as a real server does. An app that does not answer yields a 502 page.
    pub async fn forward(&self, request: Request, socket: &Path, rest_of_path: &str) -> Response {
        let Some(uri) = app_uri(&request, rest_of_path) else {
            return page::error(StatusCode::BAD_REQUEST, "The path is not one that an app could have.");
        };
        let (request, client) = outgoing(request, uri);
        match exchange(request, socket).await {
            Ok((response, connection)) => self.incoming(response, connection, client),
            Err(error) => {
                tracing::debug!(%error, "an app does not answer");
                page::error(StatusCode::BAD_GATEWAY, "The app of this workspace does not answer.")
            }
        }
    }

    /// Closes the WebSockets and waits for them; plain requests are awaited by their callers.
    pub async fn close(&self) {
        self.stop.cancel();
        self.relays.close();
        self.relays.wait().await;
    }

    fn incoming(
        &self,
        mut response: Response<Incoming>,
        connection: Connection,
        client: Option<OnUpgrade>,
    ) -> Response {
        let is_switch = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        match (is_switch, client) {
            (false, _) => {
                headers::strip_hop_by_hop(response.headers_mut());
                response.map(|body| Body::new(connection.carry(body)))
            }
            (true, Some(client)) => {
                let app = hyper::upgrade::on(&mut response);
                self.relays.spawn(relay(connection, app, client, self.stop.clone()));
                response.map(|_| Body::empty())
            }
            (true, None) => page::error(StatusCode::BAD_GATEWAY, "The app changed to a protocol unasked."),
        }
    }
}

fn app_uri(request: &Request, rest_of_path: &str) -> Option<Uri> {
    let path = rest_of_path.trim_start_matches('/');
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{path}{query}").parse().ok()
}

/// The request for the app, and the client's connection if it asks for an upgrade.
fn outgoing(mut request: Request, uri: Uri) -> (Request, Option<OnUpgrade>) {
    let client = request.extensions_mut().remove::<OnUpgrade>();
    let client = client.filter(|_| headers::asks_for_upgrade(request.headers()));
    headers::for_app(&mut request);
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    (request, client)
}

/// Copies bytes between the two upgraded connections until one side closes or the server stops.
async fn relay(connection: Connection, app: OnUpgrade, client: OnUpgrade, stop: CancellationToken) {
    let copying = async {
        connection.finished().await;
        let (Ok(app), Ok(client)) = (app.await, client.await) else { return };
        // Either side may disappear at any time; the other then sees its connection close.
        copy_bidirectional(&mut TokioIo::new(app), &mut TokioIo::new(client)).await.ok();
    };
    tokio::select! {
        () = copying => {}
        () = stop.cancelled() => {}
    }
}
