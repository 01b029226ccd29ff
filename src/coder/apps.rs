//! Apps in a workspace: talking to them through Coder's proxy, and reporting their status.
//!
//! At the proxy our token travels as a cookie and in no other way: Coder takes its own cookies out of what it
//! forwards, but hands every header and query parameter to the app, and so to the agent.

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Method, StatusCode, header};
use secrecy::SecretString;
use serde_json::Value;

use super::events::EventStream;
use super::operation::{APP_REQUEST, APP_STATUS_REPORT, APP_STREAM, APP_WEBSOCKET, Operation};
use super::request::{Auth, Host, Request, encode_path, fill};
use super::send::Reply;
use super::socket::WebSocket;
use super::wire::AppStatusReport;
use super::{Client, CoderError};

/// Where an app is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppAddress {
    /// The owner's user name; `me` does not work here.
    pub owner: String,
    pub workspace: String,
    /// Needed when the workspace has several agents.
    pub agent: Option<String>,
    pub slug: String,
    pub style: AppStyle,
}

/// How the deployment exposes the app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppStyle {
    Path,
    /// On a host of its own, which ends with the deployment's suffix, such as `.apps.example.com`.
    Subdomain {
        suffix: String,
    },
}

/// A request for the app itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppRequest {
    pub method: Method,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub body: Option<Value>,
}

/// The app's own answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppReply {
    pub status: StatusCode,
    pub content_type: Option<String>,
    pub body: Bytes,
}

/// One event that the app sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppEvent {
    pub event: Option<String>,
    pub data: String,
    pub id: Option<String>,
}

impl AppRequest {
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), query: Vec::new(), body: None }
    }

    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), query: Vec::new(), body: Some(body) }
    }
}

impl Client {
    /// Asks the app. What the app answers comes back as it is; what Coder answers in its place is an error.
    pub async fn app_request(&self, app: &AppAddress, request: AppRequest) -> Result<AppReply, CoderError> {
        let request = app.request(&APP_REQUEST, request)?;
        self.attempts(&request, || async { AppReply::read(self.exchange(&request).await?) }).await
    }

    /// Follows a stream of events that the app sends.
    pub async fn app_stream(
        &self,
        app: &AppAddress,
        request: AppRequest,
    ) -> Result<EventStream<AppEvent>, CoderError> {
        let events = self.events(app.request(&APP_STREAM, request)?).await?;
        Ok(Box::pin(events.map(|event| {
            let event = event?;
            Ok(AppEvent { event: event.event, data: event.data.unwrap_or_default(), id: event.id })
        })))
    }

    /// Opens a WebSocket to the app.
    pub async fn app_websocket(
        &self,
        app: &AppAddress,
        request: AppRequest,
    ) -> Result<WebSocket, CoderError> {
        self.upgrade(app.request(&APP_WEBSOCKET, request)?).await
    }

    /// Reports as a workspace agent what its app is doing, with the agent's own token.
    pub async fn app_status_report(
        &self,
        agent_token: &SecretString,
        report: &AppStatusReport,
    ) -> Result<(), CoderError> {
        let request = Request::new(&APP_STATUS_REPORT, &[]).json(report)?;
        self.call_done(request.auth(Auth::Agent(agent_token.clone()))).await
    }
}

impl AppAddress {
    fn request(&self, operation: &'static Operation, app: AppRequest) -> Result<Request, CoderError> {
        let (host, prefix) = match &self.style {
            AppStyle::Path => (Host::Deployment, self.path_prefix()),
            AppStyle::Subdomain { suffix } => (Host::App(self.subdomain() + suffix), String::new()),
        };
        let path = prefix + &encode_path(&app.path);
        let mut request =
            Request::at(operation, path).host(host).method(app.method).auth(Auth::SessionCookie);
        request.query = app.query;
        match app.body {
            Some(body) => request.json(&body),
            None => Ok(request),
        }
    }

    fn path_prefix(&self) -> String {
        let workspace = match &self.agent {
            Some(agent) => format!("{}.{agent}", self.workspace),
            None => self.workspace.clone(),
        };
        fill("/@{owner}/{workspace}/apps/{slug}", &[&self.owner, &workspace, &self.slug])
    }

    fn subdomain(&self) -> String {
        let parts = [Some(&self.slug), self.agent.as_ref(), Some(&self.workspace), Some(&self.owner)];
        let parts: Vec<_> = parts.into_iter().flatten().map(|part| part.to_lowercase()).collect();
        parts.join("--")
    }
}

impl AppReply {
    fn read(reply: Reply) -> Result<Self, CoderError> {
        if is_coders_own(reply.status, &reply.headers) {
            return Err(reply.refusal());
        }
        let content_type = text(&reply.headers, header::CONTENT_TYPE.as_str()).map(str::to_owned);
        Ok(Self { status: reply.status, content_type, body: reply.body })
    }
}

/// Coder speaks for itself by sending a browser elsewhere, with an error page, or when our user has used up
/// its requests. An app that is an API does none of these.
fn is_coders_own(status: StatusCode, headers: &HeaderMap) -> bool {
    let is_page =
        text(headers, header::CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("text/html"));
    let is_used_up = text(headers, "x-ratelimit-remaining") == Some("0");
    status.is_redirection()
        || (!status.is_success() && is_page)
        || (status == StatusCode::TOO_MANY_REQUESTS && is_used_up)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{APP_REQUEST, AppAddress, AppRequest, AppStyle, Auth};

    fn address(agent: Option<&str>, style: AppStyle) -> AppAddress {
        AppAddress {
            owner: "Ann".to_owned(),
            workspace: "dev".to_owned(),
            agent: agent.map(str::to_owned),
            slug: "ccw".to_owned(),
            style,
        }
    }

    fn url(address: &AppAddress, request: AppRequest) -> String {
        let request = address.request(&APP_REQUEST, request).unwrap();
        assert!(matches!(request.auth, Auth::SessionCookie));
        request.url(&Url::parse("https://coder.example:8443").unwrap()).unwrap().to_string()
    }

    #[test]
    fn path_apps_live_below_the_deployment() {
        let with_agent = address(Some("main"), AppStyle::Path);
        assert_eq!(
            url(&with_agent, AppRequest::get("/status")),
            "https://coder.example:8443/@Ann/dev.main/apps/ccw/status"
        );
        let without = address(None, AppStyle::Path);
        assert_eq!(url(&without, AppRequest::get("")), "https://coder.example:8443/@Ann/dev/apps/ccw/");
    }

    #[test]
    fn subdomain_apps_have_a_host_of_their_own() {
        let app = address(Some("main"), AppStyle::Subdomain { suffix: ".apps.example".to_owned() });
        let request =
            AppRequest { query: vec![("a".to_owned(), "b c".to_owned())], ..AppRequest::get("fleet/state") };
        assert_eq!(url(&app, request), "https://ccw--main--dev--ann.apps.example:8443/fleet/state?a=b+c");
    }
}
