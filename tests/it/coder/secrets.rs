//! Our tokens go where they belong and appear nowhere else.

use std::io;
use std::sync::{Arc, Mutex};

use fleet_mcp::coder::OPERATIONS;
use serde_json::json;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::calls::call;
use super::{AGENT_TOKEN, TOKEN, client_with_attempts, options};

/// A server that repeats the token it got in everything it says.
fn indiscreet(status: u16) -> impl Fn(&Request) -> ResponseTemplate {
    move |request| {
        let sent = ["coder-session-token", "cookie"].iter().find_map(|name| request.headers.get(*name));
        let message = format!("you sent {}", sent.map_or("nothing", |token| token.to_str().unwrap()));
        let body = json!({"message": message, "detail": format!("really, {message}"), "id": message});
        ResponseTemplate::new(status)
            .insert_header("Location", format!("/login?{message}"))
            .set_body_json(body)
    }
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that any library under us traces on this thread while the guard lives.
struct Capture {
    captured: Captured,
    _guard: tracing::subscriber::DefaultGuard,
    /// With a single subscriber alive, a call site first met by another test's thread would count as unwanted
    /// for good; a second subscriber makes tracing ask all of them.
    _second: tracing::Dispatch,
}

impl Capture {
    fn start() -> Self {
        let captured = Captured::default();
        let writer = captured.clone();
        let second = tracing::Dispatch::new(tracing_subscriber::registry());
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_writer(move || writer.clone())
            .finish();
        Self { captured, _guard: tracing::subscriber::set_default(subscriber), _second: second }
    }

    fn text(&self) -> String {
        String::from_utf8(self.captured.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn no_token_is_ever_logged_shown_or_kept_in_an_error() {
    let capture = Capture::start();
    let mut said = String::new();
    for status in [200, 303, 400, 401, 404, 429, 500] {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(indiscreet(status)).mount(&server).await;
        let client = client_with_attempts(&server.uri(), 2);
        said += &format!("{client:?} {:?}", options(&server.uri(), 1));
        for operation in OPERATIONS {
            if let Err(error) = call(&client, operation.name, &[]).await {
                said += &format!("{error} {error:?} {error:#?}");
            }
        }
    }
    let logged = capture.text();
    assert!(logged.contains("coder.operation=\"user_me\"") && logged.contains("http.status=401"));
    assert!(said.contains("[token]"));
    for canary in [TOKEN, AGENT_TOKEN] {
        assert!(!said.contains(canary) && !logged.contains(canary));
    }
}
