//! The Coder client against recorded responses, a mock server and small real servers.

mod calls;
mod faults;
mod fixtures;
mod openapi;
mod retries;
mod secrets;
mod sockets;
mod streams;

use std::num::NonZeroU32;
use std::time::Duration;

use fleet_mcp::coder::exec::ExecLimits;
use fleet_mcp::coder::{AppAddress, Client, ClientOptions, RetryPolicy, TokenOrigin};
use serde_json::Value;
use url::Url;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A token that must turn up in the right header or cookie and nowhere else.
const TOKEN: &str = "canary1234-SessionTokenThatNobodyMaySee";
const AGENT_TOKEN: &str = "canary5678-AgentTokenThatNobodyMaySee";

/// A client that never tries again.
fn client(url: &str) -> Client {
    client_with_attempts(url, 1)
}

fn client_with_attempts(url: &str, attempts: u32) -> Client {
    Client::new(options(url, attempts)).unwrap()
}

fn options(url: &str, attempts: u32) -> ClientOptions {
    ClientOptions {
        url: Url::parse(url).unwrap(),
        token: TOKEN.into(),
        token_origin: TokenOrigin::Environment,
        timeout: Duration::from_secs(10),
        requests_per_minute: NonZeroU32::new(400).unwrap(),
        retry: RetryPolicy {
            attempts: NonZeroU32::new(attempts).unwrap(),
            base_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(2),
        },
        exec: ExecLimits::NORMAL,
    }
}

/// A server with one answer for everything.
async fn server(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

/// One recorded answer, by its file name without extension.
fn fixture(name: &str) -> Value {
    let path = format!("{}/tests/fixtures/coder/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a recording of this name");
    serde_json::from_str(&text).unwrap()
}

fn app() -> AppAddress {
    AppAddress {
        owner: "ann".to_owned(),
        workspace: "dev".to_owned(),
        agent: Some("main".to_owned()),
        slug: "ccw".to_owned(),
    }
}
