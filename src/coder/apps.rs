//! Apps in a workspace: requests through Coder's proxy, and status reports.
//!
//! At the proxy our token travels as a cookie only: Coder strips its own cookies from forwarded requests, but
//! passes every header and query parameter to the app, and so to the agent.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use secrecy::SecretString;
use serde_json::Value;

use super::operation::{APP_REQUEST, APP_STATUS_REPORT};
use super::request::{Auth, Request, encode_path, fill};
use super::send::Reply;
use super::wire::AppStatusReport;
use super::{Client, CoderError};

/// The address of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppAddress {
    /// The owner's user name; the proxy does not accept `me`.
    pub owner: String,
    pub workspace: String,
    /// Required if the workspace has several agents.
    pub agent: Option<String>,
    pub slug: String,
}

/// A request for the app itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppRequest {
    pub method: Method,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub body: Option<Value>,
}

/// The app's own response, with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppReply {
    pub status: StatusCode,
    pub content_type: Option<String>,
    pub body: Bytes,
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
    /// Sends a request to an app and returns its response as it is; a response of Coder itself is an error.
    pub async fn app_request(&self, app: &AppAddress, request: AppRequest) -> Result<AppReply, CoderError> {
        let request = app.request(request)?;
        self.attempts(&request, || async { AppReply::read(self.exchange(&request).await?) }).await
    }

    /// Reports an app's status as a workspace agent, with the agent's own token.
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
    fn request(&self, app: AppRequest) -> Result<Request, CoderError> {
        let workspace = match &self.agent {
            Some(agent) => format!("{}.{agent}", self.workspace),
            None => self.workspace.clone(),
        };
        let prefix = fill("/@{owner}/{workspace}/apps/{slug}", &[&self.owner, &workspace, &self.slug]);
        let path = prefix + &encode_path(&app.path);
        let mut request = Request::at(&APP_REQUEST, path).method(app.method).auth(Auth::SessionCookie);
        request.query = app.query;
        match app.body {
            Some(body) => request.json(&body),
            None => Ok(request),
        }
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

/// Coder's own responses are redirects elsewhere, error pages and rate limits; an app that is an API sends none of
/// these.
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

    use super::{AppAddress, AppRequest, Auth};

    fn url(agent: Option<&str>, request: AppRequest) -> String {
        let address = AppAddress {
            owner: "Ann".to_owned(),
            workspace: "dev".to_owned(),
            agent: agent.map(str::to_owned),
            slug: "ccw".to_owned(),
        };
        let request = address.request(request).unwrap();
        assert!(matches!(request.auth, Auth::SessionCookie));
        request.url(&Url::parse("https://coder.example:8443").unwrap()).unwrap().to_string()
    }

    #[test]
    fn apps_live_below_the_deployment() {
        let request =
            AppRequest { query: vec![("a".to_owned(), "b c".to_owned())], ..AppRequest::get("/status") };
        assert_eq!(
            url(Some("main"), request),
            "https://coder.example:8443/@Ann/dev.main/apps/ccw/status?a=b+c"
        );
        assert_eq!(url(None, AppRequest::get("")), "https://coder.example:8443/@Ann/dev/apps/ccw/");
    }
}
