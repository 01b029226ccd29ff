//! Finds the handler of a request, checks its credential and answers it.

use super::answers::{Answer, Reply, signed_out};
use super::state::State;
use super::{agent_api, agents, builds, faults, list, server, workspaces};
use crate::harness::path::captures;
use chrono::Utc;
use http::HeaderMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;
use wiremock::{Request, Respond, ResponseTemplate};

type Handler = fn(&mut State, &Call) -> Answer;
type Route = (&'static str, &'static str, Credential, Handler);

/// Who may call a route.
#[derive(Clone, Copy)]
enum Credential {
    /// None is checked.
    Open,
    User,
    /// The session cookie and nothing else.
    Cookie,
}

use Credential::{Cookie, Open, User};

/// The whole surface: method, path, credential, handler.
const ROUTES: &[Route] = &[
    ("GET", "/api/v2/buildinfo", Open, server::buildinfo),
    ("GET", "/api/v2/organizations", User, server::organizations),
    ("GET", "/api/v2/templates", User, server::templates),
    ("GET", "/api/v2/organizations/{org}/templates/{name}", User, server::template_by_name),
    ("GET", "/api/v2/templateversions/{id}/rich-parameters", User, server::rich_parameters),
    ("GET", "/api/v2/templateversions/{id}/presets", User, server::presets),
    ("POST", "/api/v2/organizations/{org}/members/{user}/workspaces", User, workspaces::create),
    ("GET", "/api/v2/workspaces", User, list::list),
    ("GET", "/api/v2/workspaces/{id}", User, workspaces::get),
    ("GET", "/api/v2/users/{user}/workspace/{name}", User, workspaces::get_by_name),
    ("GET", "/api/v2/workspaces/{id}/builds", User, builds::list),
    ("POST", "/api/v2/workspaces/{id}/builds", User, builds::create),
    ("GET", "/api/v2/workspacebuilds/{id}/parameters", User, builds::parameters),
    ("GET", "/api/v2/workspacebuilds/{id}/logs", User, builds::logs),
    ("PATCH", "/api/v2/workspacebuilds/{id}/cancel", User, builds::cancel),
    ("GET", "/api/v2/workspaceagents/{id}/watch-metadata", User, agents::watch_metadata),
    ("GET", "/@{user}/{workspace}/apps/{slug}", Cookie, agent_api::without_slash),
    ("GET", "/@{user}/{workspace}/apps/{slug}/{endpoint}", Cookie, agent_api::proxy),
    ("POST", "/@{user}/{workspace}/apps/{slug}/{endpoint}", Cookie, agent_api::proxy),
];

/// A request, with the captured parts of its path.
pub(super) struct Call {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) raw_query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    route: Option<&'static Route>,
    args: Vec<String>,
    query: Vec<(String, String)>,
}

impl Call {
    pub(super) fn arg(&self, place: usize) -> &str {
        &self.args[place]
    }

    pub(super) fn uuid(&self, place: usize) -> Result<Uuid, Reply> {
        let text = self.arg(place);
        Uuid::parse_str(text).map_err(|_| {
            let detail = format!("invalid UUID length: {}", text.len());
            Reply::error(400, &format!("Invalid UUID \"{text}\".")).detail(&detail)
        })
    }

    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn session_cookie(&self) -> Option<&str> {
        let cookies = self.header("cookie")?.split(';');
        cookies.filter_map(|cookie| cookie.trim().strip_prefix("coder_session_token=")).next()
    }

    fn new(request: &Request) -> Self {
        let (method, path) = (request.method.as_str(), request.url.path());
        let found = ROUTES
            .iter()
            .filter(|(wanted, ..)| *wanted == method)
            .find_map(|route| captures(route.1, path).map(|args| (route, args)));
        let (route, args) = found.unzip();
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            raw_query: request.url.query().map(str::to_owned),
            headers: request.headers.clone(),
            body: request.body.clone(),
            route,
            args: args.unwrap_or_default(),
            query: request.url.query_pairs().into_owned().collect(),
        }
    }

    /// What calls are counted by: the route, or the path itself where there is none.
    fn label(&self) -> String {
        let pattern = self.route.map_or(self.path.as_str(), |route| route.1);
        format!("{} {pattern}", self.method)
    }
}

/// The stub's side of wiremock.
pub(super) struct Router(pub(super) Arc<Mutex<State>>);

impl Respond for Router {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        // A handler that panicked fails its own test; other requests still want an answer.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = Call::new(request);
        *state.calls.entry(call.label()).or_default() += 1;
        template(&faults::answer(&mut state, &call))
    }
}

/// Answers a call without any fault.
pub(super) fn answer(state: &mut State, call: &Call) -> Reply {
    let Some((_, _, credential, handler)) = call.route else {
        return Reply::error(404, "Route not found.");
    };
    let checked = match credential {
        Open => Ok(()),
        User => check_user(state, call),
        Cookie => check_cookie(state, call),
    };
    checked.and_then(|()| handler(state, call)).unwrap_or_else(|error| error)
}

fn check_user(state: &State, call: &Call) -> Result<(), Reply> {
    let cookie = call.session_cookie();
    if cookie.is_some() && call.method != "GET" {
        let text = "CSRF error encountered: a request with the session cookie needs a CSRF token\n";
        return Err(Reply::text(400, "text/plain; charset=utf-8", text));
    }
    let bearer = call.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let header = call.header("coder-session-token").or(bearer).or(call.query("coder_session_token"));
    match cookie.or(header) {
        None => Err(signed_out("Cookie \"coder_session_token\" or query parameter must be provided.")),
        Some(token) if token == state.token => Ok(()),
        Some(token) => Err(refused(token)),
    }
}

/// The problem of a token: its format first, then that it is unknown.
fn refused(token: &str) -> Reply {
    let id_length = token.split('-').next().map_or(0, str::len);
    if id_length == 10 {
        return signed_out("API key is invalid.");
    }
    let detail = format!("Invalid API key format: invalid API key ID length, expected 10 got {id_length}");
    signed_out(&detail)
}

fn check_cookie(state: &State, call: &Call) -> Result<(), Reply> {
    if call.session_cookie() == Some(state.token.as_str()) {
        return Ok(());
    }
    let location = format!("{}/login?redirect={}", state.url, call.path);
    let body = format!("<a href=\"{location}\">See Other</a>.\n\n");
    Err(Reply::text(303, "text/html; charset=utf-8", &body).header("Location", &location))
}

fn template(reply: &Reply) -> ResponseTemplate {
    let mut template = ResponseTemplate::new(reply.status)
        .set_body_raw(reply.bytes(), reply.content_type)
        .insert_header("X-Coder-Build-Version", "v2.36.0")
        .insert_header("X-Ratelimit-Limit", "512")
        .insert_header("X-Ratelimit-Remaining", "511")
        .insert_header("X-Ratelimit-Reset", (Utc::now().timestamp() + 60).to_string());
    for (name, value) in &reply.headers {
        template = template.insert_header(*name, value.as_str());
    }
    template
}
