//! Talking to the agent inside a workspace through its app: looking, telling, interrupting.

mod address;
mod query;
mod signals;
mod wire;

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::Fleet;
use super::snapshot::AgentState;
use crate::coder::{AppAddress, AppReply, AppRequest, CoderError, Outcome};
use crate::domain::app::{AppSeen, RunnerSeen};
use address::AppLookup;
use query::AppResponse;
use wire::{FleetTask, Problem};

pub(super) use address::AppSlugs;

const ESCAPE: &str = "\u{1b}";
/// How AgentAPI says that it is not the time to talk. It fails in other words too, and those after it has begun to type.
const TRY_LATER: &str = "can only be sent when";

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryResult {
    Accepted,
    /// Nothing was taken; another time it may be.
    TryLater,
    /// Nothing was taken, and never will be.
    Refused(String),
    /// It may or may not have arrived: look before anything else.
    Unclear,
}

/// A message for the agent; the key is known to our runner only.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskMessage<'a> {
    pub(super) text: &'a str,
    pub(super) key: Option<&'a str>,
    /// It goes on with what the engine's session knows, and never begins anew.
    pub(super) is_continued: bool,
}

impl Fleet {
    /// What the agent's app shows now; whatever goes wrong is part of the answer.
    pub(super) async fn app_probe(&self, state: &AgentState) -> AppSeen {
        self.app_probe_within(state, self.limits().app_request).await
    }

    /// The same of an agent that is to stop: others wait for what becomes of it.
    pub(super) async fn app_probe_briefly(&self, state: &AgentState) -> AppSeen {
        self.app_probe_within(state, self.limits().app_interrupt).await
    }

    async fn app_probe_within(&self, state: &AgentState, limit: Duration) -> AppSeen {
        let probe = async {
            match self.app_lookup(state).await {
                AppLookup::Found(app, is_healthy) => self.app_query(&app, is_healthy).await,
                AppLookup::NoApp => AppSeen::Absent,
                AppLookup::NotAgentApi => AppSeen::Foreign,
                AppLookup::Undetermined => {
                    AppSeen::Silent { reason: "an app of the agent did not respond".to_owned() }
                }
            }
        };
        let late = || AppSeen::Silent { reason: "no response in time".to_owned() };
        tokio::time::timeout(limit, probe).await.unwrap_or_else(|_| late())
    }

    /// Adds what the runner knows of a task that it does not show any more, since it shows only the newest turns.
    /// Without an answer nothing is known, not even what was seen.
    pub(super) async fn app_query_task(
        &self,
        state: &AgentState,
        mut seen: RunnerSeen,
        key: &str,
    ) -> AppSeen {
        let recall = async {
            let Some(app) = self.app_lookup(state).await.address() else {
                return Ok(AppResponse::Inconclusive);
            };
            let asked = AppRequest::get("/fleet/state");
            let query = vec![("task".to_owned(), key.to_owned())];
            self.app_read::<FleetTask>(&app, AppRequest { query, ..asked }).await
        };
        match tokio::time::timeout(self.limits().app_request, recall).await {
            Ok(Ok(AppResponse::Parsed(known))) => {
                seen.turns.extend(known.turn());
                AppSeen::Runner(seen)
            }
            Ok(Ok(AppResponse::Unsupported | AppResponse::ErrorPage | AppResponse::Inconclusive)) => {
                AppSeen::Silent { reason: "the agent's app did not return the state of the task".to_owned() }
            }
            Ok(Err(error)) => silent(&error),
            Err(_) => AppSeen::Silent { reason: "no response in time".to_owned() },
        }
    }

    pub(super) async fn app_deliver(&self, state: &AgentState, message: TaskMessage<'_>) -> DeliveryResult {
        let mut body = json!({ "content": message.text, "type": "user" });
        if let Some(key) = message.key {
            body["task_id"] = json!(key);
        }
        if message.is_continued {
            body["continues"] = json!(true);
        }
        let Some(app) = self.app_lookup(state).await.address() else { return DeliveryResult::TryLater };
        match self.app_post(&app, body, self.limits().app_message).await {
            Some(Ok(reply)) => delivery_result(&reply),
            Some(Err(error)) => match error.outcome() {
                Outcome::NotSent | Outcome::Refused => DeliveryResult::TryLater,
                Outcome::Unclear => DeliveryResult::Unclear,
            },
            None => DeliveryResult::Unclear,
        }
    }

    /// Asks the agent to stop what it is doing, or only what it does for this task, also while that waits or is on its
    /// way. The next look tells.
    pub(super) async fn app_interrupt(&self, state: &AgentState, key: Option<&str>) {
        let mut body = json!({ "content": ESCAPE, "type": "raw" });
        if let Some(key) = key {
            body["task_id"] = json!(key);
            body["cancel"] = json!(true);
        }
        let Some(app) = self.app_lookup(state).await.address() else { return };
        if let Some(Err(error)) = self.app_post(&app, body, self.limits().app_interrupt).await {
            tracing::debug!(agent.name = %state.agent.name, %error, "the interrupt was not delivered");
        }
    }

    /// None when nobody answers in time.
    async fn app_post(
        &self,
        app: &AppAddress,
        body: serde_json::Value,
        limit: Duration,
    ) -> Option<Result<AppReply, CoderError>> {
        let post = self.coder().app_request(app, AppRequest::post("/message", body));
        tokio::time::timeout(limit, post).await.ok()
    }
}

fn delivery_result(reply: &AppReply) -> DeliveryResult {
    let answer = || serde_json::from_slice::<Problem>(&reply.body).unwrap_or_default().text();
    match reply.status {
        status if status.is_success() => DeliveryResult::Accepted,
        StatusCode::INTERNAL_SERVER_ERROR if answer().contains(TRY_LATER) => DeliveryResult::TryLater,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => DeliveryResult::TryLater,
        status if status.is_server_error() => DeliveryResult::Unclear,
        status => {
            DeliveryResult::Refused(format!("the agent's app rejected the task ({status}): {}", answer()))
        }
    }
}

fn silent(error: &CoderError) -> AppSeen {
    AppSeen::Silent { reason: error.to_string() }
}
