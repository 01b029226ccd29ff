//! Talks to the agent inside a workspace through its app: probes it, delivers messages, interrupts it.

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
/// Part of AgentAPI's error while the agent is busy. Other errors can occur after the text was partly entered.
const TRY_LATER: &str = "can only be sent when";

/// The result of delivering a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryResult {
    Accepted,
    /// The app did not take the message; a later attempt may succeed.
    TryLater,
    /// The app did not take the message and never will.
    Refused(String),
    /// The message may have arrived: probe before any other step.
    Unclear,
}

/// A message for the agent. Only our runner knows the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskMessage<'a> {
    pub(super) text: &'a str,
    pub(super) key: Option<&'a str>,
    /// The message continues the engine's session and never starts a new one.
    pub(super) is_continued: bool,
}

impl Fleet {
    /// Probes the agent's app. Errors are part of the result.
    pub(super) async fn app_probe(&self, state: &AgentState) -> AppSeen {
        self.app_probe_within(state, self.limits().app_request).await
    }

    /// Probes with a short deadline, for an agent that is to stop: callers wait for the result.
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

    /// Adds the runner's state of a task that its newest turns no longer include. Without a response the whole result
    /// is silent, since a partial state would be misread.
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

    /// Asks the agent to stop its work, or with a key only the work on that task, also while that task is queued. The
    /// next probe shows the effect.
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

    /// None if the app does not respond in time.
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
