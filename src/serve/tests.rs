//! A server with few connections: idle ones are closed for new ones, and requests are answered.

use std::net::SocketAddr;

use axum::body::to_bytes;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::*;

const HALF: &[u8] = b"GET /now HTTP/1.1\r\nhost: x\r\n";
const REST: &[u8] = b"connection: close\r\n\r\n";
const LONG: Duration = Duration::from_hours(1);
const SHORT: Duration = Duration::from_millis(20);
/// More than the buffers of a connection hold.
const BIG: usize = 32 * 1024 * 1024;

struct Server {
    address: SocketAddr,
    /// Each permit lets one request to `/later` end.
    gate: Arc<Semaphore>,
    /// One permit per request that has arrived at `/later`.
    arrived: Arc<Semaphore>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start(limits: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (gate, stop) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let arrived = Arc::new(Semaphore::new(0));
        let signals = (Arc::clone(&gate), Arc::clone(&arrived));
        let later = move || async move {
            signals.1.add_permits(1);
            signals.0.acquire().await.unwrap().forget();
            "later"
        };
        let read = |body: Body| async { to_bytes(body, BIG).await.map_or("cut", |_| "whole") };
        let router = Router::new().route("/now", get(|| async { "now" })).route("/later", get(later));
        let router = router.route("/big", get(|| async { vec![b'x'; BIG] })).route("/read", post(read));
        let serving = tokio::spawn(serve(listener, router, limits, stop.clone()));
        Self { address, gate, arrived, stop, serving }
    }

    /// Waits until this many requests have arrived at `/later`.
    async fn has_taken(&self, n_requests: u32) {
        self.arrived.acquire_many(n_requests).await.unwrap().forget();
    }

    async fn send(&self, text: &[u8]) -> TcpStream {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        connection.write_all(text).await.unwrap();
        connection
    }
}

/// The last line that the server sends; none for a connection that is closed without a response.
async fn last_line(mut connection: TcpStream) -> Option<String> {
    let mut text = String::new();
    // Closing a connection with unread bytes resets it.
    let _read = connection.read_to_string(&mut text).await;
    text.lines().last().map(str::to_owned)
}

async fn ask(server: &Server, path: &str) -> TcpStream {
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    server.send(head.as_bytes()).await
}

/// Limits without time bounds.
fn within(connections: usize) -> ConnectionLimits {
    ConnectionLimits { connections, head_time: LONG, body_time: LONG, write_time: LONG }
}

fn now() -> Option<String> {
    Some("now".to_owned())
}

#[tokio::test]
async fn of_the_connections_that_never_ask_the_oldest_give_way_to_a_request() {
    let server = Server::start(within(4)).await;
    let mut half_open = Vec::new();
    for _ in 0..8 {
        half_open.push(server.send(HALF).await);
    }
    assert_eq!(last_line(ask(&server, "/now").await).await, now());
    let mut newest = half_open.split_off(5);
    for given_way in half_open {
        assert_eq!(last_line(given_way).await, None);
    }
    for connection in &mut newest {
        connection.write_all(REST).await.unwrap();
    }
    for connection in newest {
        assert_eq!(last_line(connection).await, now());
    }
}

#[tokio::test]
async fn an_open_request_keeps_its_connection_and_a_connection_at_rest_does_not() {
    let server = Server::start(within(2)).await;
    let mut at_rest = server.send(b"GET /now HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut serve_connection = Vec::new();
    while !serve_connection.ends_with(b"now") {
        serve_connection.push(at_rest.read_u8().await.unwrap());
    }
    let first = ask(&server, "/later").await;
    let second = ask(&server, "/later").await;
    assert_eq!(last_line(at_rest).await, None);
    server.has_taken(2).await;
    let third = tokio::spawn(last_line(ask(&server, "/now").await));
    server.gate.add_permits(1);
    assert_eq!(third.await.unwrap(), now());
    server.gate.add_permits(1);
    let later = Some("later".to_owned());
    assert_eq!((last_line(first).await, last_line(second).await), (later.clone(), later));
}

#[tokio::test]
async fn a_head_that_does_not_come_in_time_ends_its_connection() {
    let server = Server::start(ConnectionLimits { head_time: SHORT, ..within(2) }).await;
    assert_eq!(last_line(server.send(HALF).await).await, None);
    assert_eq!(last_line(server.send(b"").await).await, None);
    assert_eq!(last_line(ask(&server, "/now").await).await, now());
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_ends_in_time() {
    let server = Server::start(ConnectionLimits { body_time: SHORT, ..within(1) }).await;
    let mut slow = server.send(b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").await;
    let (mut serve_connection, mut sending) = slow.split();
    let drip = async {
        while sending.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    let mut text = String::new();
    let ended = async {
        tokio::select! {
            read = serve_connection.read_to_string(&mut text) => drop(read),
            () = drip => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
    assert_eq!(text.lines().last(), Some("cut"));
    assert_eq!(last_line(ask(&server, "/now").await).await, now());
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_gives_up_its_seat() {
    let server = Server::start(ConnectionLimits { write_time: SHORT, ..within(1) }).await;
    let untaken = ask(&server, "/big").await;
    let serve_connection =
        tokio::time::timeout(Duration::from_secs(10), last_line(ask(&server, "/now").await)).await;
    assert_eq!(serve_connection.unwrap(), now());
    drop(untaken);
}

#[tokio::test]
async fn a_stop_closes_what_never_asked_and_waits_for_open_requests() {
    let server = Server::start(within(4)).await;
    let half_open = server.send(HALF).await;
    let open = ask(&server, "/later").await;
    server.has_taken(1).await;
    server.stop.cancel();
    assert_eq!(last_line(half_open).await, None);
    assert!(!server.serving.is_finished());
    server.gate.add_permits(1);
    assert_eq!(last_line(open).await, Some("later".to_owned()));
    server.serving.await.unwrap();
}
