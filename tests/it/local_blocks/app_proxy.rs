//! The way to an app of a workspace: what it gets to see, streams, sockets and its absence.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State, WebSocketUpgrade};
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use bytes::Bytes;
use fleet_mcp::local::proxy::AppProxy;
use futures_util::{SinkExt, StreamExt, stream};
use http::HeaderMap;
use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// The app's chunks, sent one by one by the test; the test sees when they are no longer read.
type Chunks = Arc<Mutex<Option<mpsc::Receiver<&'static str>>>>;

struct Scene {
    address: SocketAddr,
    proxy: Arc<AppProxy>,
    chunks: mpsc::Sender<&'static str>,
    _folder: TempDir,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

impl Scene {
    async fn new(listening: Listening) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (chunks, receiver) = mpsc::channel(1);
        let socket = app(listening, &folder, receiver).await;
        let proxy = Arc::new(AppProxy::default());
        let address = front(Arc::clone(&proxy), socket).await;
        Self { address, proxy, chunks, _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/apps/ccw{path}", self.address)
    }
}

async fn app(listening: Listening, folder: &TempDir, chunks: mpsc::Receiver<&'static str>) -> PathBuf {
    let routes = Router::new()
        .route("/seen/{*rest}", any(seen))
        .route("/echo", post(async |body: Body| body))
        .route("/events", get(events))
        .route("/socket", get(echo_socket))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(Chunks::new(Mutex::new(Some(chunks))));
    let path = folder.path().join("app.sock");
    if listening == Listening::Yes {
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
    }
    path
}

/// A server that passes on what comes under `/apps/ccw`.
async fn front(proxy: Arc<AppProxy>, socket: PathBuf) -> SocketAddr {
    let pass = async move |request: Request| {
        let rest = request.uri().path().strip_prefix("/apps/ccw").unwrap_or_default().to_owned();
        proxy.forward(request, &socket, &rest).await
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = Router::new().fallback(pass).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

async fn seen(request: Request) -> String {
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    let headers: BTreeMap<String, String> = request.headers().iter().map(header).collect();
    json!({ "method": request.method().as_str(), "uri": request.uri().to_string(), "headers": headers })
        .to_string()
}

async fn events(State(chunks): State<Chunks>) -> impl IntoResponse {
    let mut chunks = chunks.lock().unwrap().take().unwrap();
    let body = stream::poll_fn(move |context| chunks.poll_recv(context))
        .map(|chunk| Ok::<_, std::convert::Infallible>(Bytes::from(chunk)));
    (
        [("content-type", "text/event-stream"), ("connection", "x-hop"), ("x-hop", "1")],
        Body::from_stream(body),
    )
}

async fn echo_socket(headers: HeaderMap, upgrade: WebSocketUpgrade) -> impl IntoResponse {
    let cookie = headers.get("cookie").map_or("", |cookie| cookie.to_str().unwrap()).to_owned();
    upgrade.on_upgrade(async move |mut socket| {
        socket.send(cookie.into()).await.unwrap();
        while let Some(Ok(message)) = socket.recv().await {
            socket.send(message).await.ok();
        }
    })
}

async fn json_of(request: reqwest::RequestBuilder) -> Value {
    serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
}

#[tokio::test]
async fn the_app_sees_everything_but_coders_cookies_and_the_connections_own_headers() {
    let scene = Scene::new(Listening::Yes).await;
    let request = Client::new()
        .put(scene.url("/seen/a%20b/%2F?coder_session_token=query&x=1"))
        .header("Cookie", "coder_session_token=cookie; theme=dark; coder_signed_app_token=signed")
        .header("Coder-Session-Token", "header")
        .header("Authorization", "Bearer bearer")
        .header("Connection", "keep-alive, x-own")
        .header("X-Own", "1")
        .header("TE", "trailers")
        .header("X-Forwarded-For", "192.0.2.7")
        .body("four");
    let expected = json!({
        "method": "PUT",
        "uri": "/seen/a%20b/%2F?coder_session_token=query&x=1",
        "headers": {
            "accept": "*/*",
            "accept-encoding": "gzip",
            "authorization": "Bearer bearer",
            "coder-session-token": "header",
            "content-length": "4",
            "cookie": "theme=dark",
            "host": "localhost",
            "x-forwarded-for": "192.0.2.7, 127.0.0.1",
            "x-forwarded-host": scene.address.to_string(),
            "x-forwarded-proto": "http",
        },
    });
    assert_eq!(json_of(request).await, expected);
}

#[tokio::test]
async fn a_request_without_a_body_stays_without() {
    let scene = Scene::new(Listening::Yes).await;
    let answer = json_of(Client::new().get(scene.url("/seen/x"))).await;
    let headers: Vec<&String> = answer["headers"].as_object().unwrap().keys().collect();
    let expected =
        ["accept", "accept-encoding", "host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
    assert_eq!(
        (answer["uri"].as_str(), headers),
        (Some("/seen/x"), expected.map(str::to_owned).iter().collect())
    );
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let sent: Bytes = (0..8_000_000_u32).map(|number| number.to_le_bytes()[number as usize % 3]).collect();
    let scene = Scene::new(Listening::Yes).await;
    let answer = Client::new().post(scene.url("/echo")).body(sent.clone()).send().await.unwrap();
    let received = answer.bytes().await.unwrap();
    assert!(received == sent, "{} bytes came back", received.len());
}

#[tokio::test]
async fn events_pass_one_by_one() {
    let scene = Scene::new(Listening::Yes).await;
    let mut answer = Client::new().get(scene.url("/events")).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.headers().get("x-hop"), None);
    for event in ["data: one\n\n", "data: two\n\n"] {
        scene.chunks.send(event).await.unwrap();
        // Nothing else is under way, so a proxy that gathers chunks would wait here for ever.
        assert_eq!(answer.chunk().await.unwrap().unwrap(), event);
    }
    drop(scene.chunks);
    assert_eq!(answer.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed_by_the_app() {
    let scene = Scene::new(Listening::Yes).await;
    let answer = Client::new().get(scene.url("/events")).send().await.unwrap();
    drop(answer);
    scene.chunks.closed().await;
}

#[tokio::test]
async fn websockets_pass_without_coders_cookie() {
    let scene = Scene::new(Listening::Yes).await;
    let mut request = format!("ws://{}/apps/ccw/socket", scene.address).into_client_request().unwrap();
    request.headers_mut().insert("cookie", "coder_session_token=secret; theme=dark".parse().unwrap());
    let stream = TcpStream::connect(scene.address).await.unwrap();
    let (mut socket, _) = client_async(request, stream).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("theme=dark"));
    let large = Message::text("x".repeat(1_000_000));
    socket.send(large.clone()).await.unwrap();
    assert!(socket.next().await.unwrap().unwrap() == large);
    socket.close(None).await.unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    scene.proxy.close().await;
}

#[tokio::test]
async fn closing_the_proxy_ends_its_websockets() {
    let scene = Scene::new(Listening::Yes).await;
    let stream = TcpStream::connect(scene.address).await.unwrap();
    let url = format!("ws://{}/apps/ccw/socket", scene.address);
    let (mut socket, _) = client_async(url, stream).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(""));
    scene.proxy.close().await;
    assert!(!matches!(socket.next().await, Some(Ok(_))));
}

#[tokio::test]
async fn a_request_for_a_socket_may_be_refused_by_the_app() {
    let scene = Scene::new(Listening::Yes).await;
    let request = Client::new().post(scene.url("/echo")).header("Connection", "upgrade");
    let answer = request.header("Upgrade", "websocket").body("plain").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, "plain"));
}

#[tokio::test]
async fn an_app_that_does_not_listen_is_a_bad_gateway_page() {
    let scene = Scene::new(Listening::No).await;
    let answer = Client::new().get(scene.url("/status")).send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!((answer.status().as_u16(), kind.as_str()), (502, "text/html; charset=utf-8"));
    assert!(answer.text().await.unwrap().starts_with("<!doctype html>"));
}
