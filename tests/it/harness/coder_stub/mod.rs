//! A stateful Coder for tests: a real server's responses over wiremock, and controls for what happens next.

mod agent_api;
mod agents;
mod answers;
mod builds;
mod controls;
mod faults;
mod list;
mod parameters;
mod routes;
mod script;
mod server;
mod shapes;
mod spec;
mod state;
mod template_shapes;
mod workspaces;

pub(crate) use agent_api::{AgentScript, AppRequest};
pub(crate) use controls::WorkspaceSummary;
pub(crate) use faults::Fault;
pub(crate) use spec::{Behaviour, Pace, ParamSpec, TemplateSpec};

use crate::harness::api::Api;
use crate::harness::rule::{Rule, RuleId};
use routes::Router;
use state::State;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer};

/// A running stub; it ends when it is dropped.
pub(crate) struct CoderStub {
    state: Arc<Mutex<State>>,
    url: String,
    _server: MockServer,
}

impl CoderStub {
    /// A server with the recorded `fleet` template and no workspaces.
    pub(crate) async fn start(pace: Pace) -> Self {
        let server = MockServer::builder().disable_request_recording().start().await;
        let url = server.uri();
        let mut state = State::new(pace);
        state.url.clone_from(&url);
        state.template_add(TemplateSpec::fleet());
        let state = Arc::new(Mutex::new(state));
        Mock::given(any()).respond_with(Router(Arc::clone(&state))).mount(&server).await;
        Self { state, url, _server: server }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The session token that is accepted now.
    pub(crate) fn token(&self) -> String {
        self.lock().token.clone()
    }

    /// Raw calls to this server with the current token.
    pub(crate) fn api(&self) -> Api {
        Api::new(&self.url, &self.token())
    }

    /// Accepts a new token, which is returned, and no longer the old one.
    pub(crate) fn token_rotate(&self) -> String {
        let token = state::fresh_token();
        self.lock().token.clone_from(&token);
        token
    }

    pub(crate) fn set_pace(&self, pace: Pace) {
        self.lock().pace = pace;
    }

    /// Adds a template, or a new active version of one that is there.
    pub(crate) fn template_add(&self, spec: TemplateSpec) {
        self.lock().template_add(spec);
    }

    pub(crate) fn template_remove(&self, name: &str) {
        self.lock().templates.retain(|template| template.name != name);
    }

    pub(crate) fn fault(&self, rule: Rule<Fault>) -> RuleId {
        self.lock().faults.add(rule)
    }

    /// How often a fault was injected.
    pub(crate) fn fault_hits(&self, id: RuleId) -> usize {
        self.lock().faults.hits(id)
    }

    pub(crate) fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// All requests so far, refused and falsely answered ones too: `GET /api/v2/workspaces/{id}` and so on.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        self.lock().calls.clone()
    }

    pub(crate) fn reset_calls(&self) {
        self.lock().calls.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}
