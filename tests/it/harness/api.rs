//! Raw HTTP calls for tests that look at a Coder server without our typed client.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, redirect::Policy};
use serde_json::{Value, json};

/// Creates a workspace of the token's user.
pub(crate) const CREATE: &str = "/api/v2/organizations/coder/members/me/workspaces";

/// One server and the token to call it with.
#[derive(Clone)]
pub(crate) struct Api {
    http: Client,
    base: String,
    token: String,
}

/// An answer; a body that is not JSON is kept as a string.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Api {
    pub(crate) fn new(base: &str, token: &str) -> Self {
        // Well before our servers close an idle connection: a request could cross with the close.
        let idle = Duration::from_secs(5);
        let builder = Client::builder().no_proxy().tls_certs_only([]).pool_idle_timeout(idle);
        let http = builder.redirect(Policy::none()).build();
        Self {
            http: http.expect("an HTTP client can be built"),
            base: base.to_owned(),
            token: token.to_owned(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.try_get(path).await.expect("the request is answered")
    }

    pub(crate) async fn try_get(&self, path: &str) -> reqwest::Result<Reply> {
        read(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.try_post(path, body).await.expect("the request is answered")
    }

    pub(crate) async fn try_post(&self, path: &str, body: &Value) -> reqwest::Result<Reply> {
        read(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Reply {
        read(self.request(Method::PATCH, path).json(body)).await.expect("the request is answered")
    }

    /// Creates a workspace of the token's user, with the one value that the `fleet` template cannot do without.
    pub(crate) async fn workspace_create(&self, template: &str, name: &str) -> Reply {
        let template = self.get(&format!("/api/v2/organizations/coder/templates/{template}")).await.body;
        let values = json!([{ "name": "project", "value": "alpha" }]);
        let body = json!({ "name": name, "template_id": template["id"], "rich_parameter_values": values });
        self.post(CREATE, &body).await
    }

    /// A request with the session token in its header, for a test to change before sending.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).header("Coder-Session-Token", &self.token)
    }

    /// A request without any credential.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }
}

/// Sends a request and reads the whole answer; an answer cut short is an error.
pub(crate) async fn read(request: RequestBuilder) -> reqwest::Result<Reply> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await?;
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(Reply { status, headers, body })
}
