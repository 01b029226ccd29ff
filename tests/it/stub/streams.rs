//! Server-sent events and WebSockets flow through the fault proxy while both sides are open.

use crate::harness::{FaultProxy, Matches, ProxyFault, Rule, When};
use axum::Router;
use axum::extract::WebSocketUpgrade;
use axum::extract::ws::{Message as Frame, WebSocket};
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use std::convert::Infallible;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

/// A server with an event stream that the test feeds, and a socket that echoes.
async fn upstream(events: broadcast::Sender<String>) -> String {
    let stream = move || {
        let events = BroadcastStream::new(events.subscribe());
        let events = events.map(|text| Ok::<_, Infallible>(Event::default().data(text.unwrap())));
        async { Sse::new(events) }
    };
    let socket = async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo);
    let routes = Router::new().route("/events", get(stream)).route("/socket", get(socket));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, routes).await });
    url
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(frame)) = socket.recv().await {
        if matches!(frame, Frame::Close(_)) || socket.send(frame).await.is_err() {
            break;
        }
    }
}

async fn open_events(proxy: &FaultProxy) -> reqwest::Response {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    client.get(format!("{}/events", proxy.url())).send().await.unwrap()
}

#[tokio::test]
async fn events_arrive_one_by_one_while_the_stream_is_open() {
    let (events, _) = broadcast::channel(8);
    let proxy = FaultProxy::start(&upstream(events.clone()).await).await;
    let mut stream = open_events(&proxy).await;
    for text in ["first", "second"] {
        events.send(text.to_owned()).unwrap();
        assert_eq!(stream.chunk().await.unwrap().unwrap(), format!("data: {text}\n\n"));
    }
}

#[tokio::test]
async fn open_streams_are_cut_when_the_proxy_goes_down() {
    let (events, _) = broadcast::channel(8);
    let mut proxy = FaultProxy::start(&upstream(events.clone()).await).await;
    let mut stream = open_events(&proxy).await;
    proxy.down().await;
    stream.chunk().await.expect_err("the stream was cut");
}

#[tokio::test]
async fn a_stream_can_be_cut_after_some_bytes() {
    let (events, _) = broadcast::channel(8);
    let proxy = FaultProxy::start(&upstream(events.clone()).await).await;
    let kind = ProxyFault::CutInBody { bytes: 8 };
    proxy.fault(Rule { matches: Matches::path("/events"), when: When::Always, kind });
    let mut stream = open_events(&proxy).await;
    events.send("a long event that does not arrive whole".to_owned()).unwrap();
    while let Ok(chunk) = stream.chunk().await {
        chunk.expect("a cut stream has no proper end");
    }
}

#[tokio::test]
async fn websockets_echo_through_the_proxy() {
    let (events, _) = broadcast::channel(1);
    let proxy = FaultProxy::start(&upstream(events).await).await;
    let address = proxy.url().replace("http://", "");
    let tcp = TcpStream::connect(&address).await.unwrap();
    let (mut socket, _) = client_async(format!("ws://{address}/socket"), tcp).await.unwrap();
    for text in ["one", "two"] {
        socket.send(Message::text(text)).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text(text));
    }
    socket.close(None).await.unwrap();
}
