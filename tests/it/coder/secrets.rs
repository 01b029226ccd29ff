//! Our tokens go where they belong and appear nowhere else.

use fleet_mcp::coder::OPERATIONS;
use serde_json::json;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::calls::call;
use super::{AGENT_TOKEN, TOKEN, client_with_attempts, options};
use crate::harness::Capture;

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
    assert!(logged.contains("coder.operation=\"organizations\"") && logged.contains("http.status=401"));
    assert!(said.contains("[token]"));
    for canary in [TOKEN, AGENT_TOKEN] {
        assert!(!said.contains(canary) && !logged.contains(canary));
    }
}
