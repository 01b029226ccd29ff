//! Metrics of the fleet and its HTTP traffic, as Prometheus text.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::WebState;
use super::arguments::Arguments;
use super::problem::Problem;
use crate::app::caller::Caller;
use crate::app::fleet_status::FleetOverview;
use crate::domain::agent::AgentStatus;
use crate::domain::name::AgentName;
use crate::domain::usage::UsageTotal;
use crate::view::request::NoInput;

const BUILD_INFO: &str = "fleet_build_info";
const AGENTS: &str = "fleet_agents";
const OPERATIONS: &str = "fleet_operations_open";
const SLOTS: &str = "fleet_build_slots";
const CODER: &str = "fleet_coder_reachable";
const SPEND_USD: &str = "fleet_spend_today_usd";
const SPEND_TOKENS: &str = "fleet_spend_today_tokens";
const UNKNOWN_RUNS: &str = "fleet_unknown_runs_today";
const AGENT_USD: &str = "fleet_agent_cost_usd";
const AGENT_TOKENS: &str = "fleet_agent_tokens";
const REQUESTS: &str = "fleet_http_requests_total";
const DURATION: &str = "fleet_http_request_duration_seconds";

/// Upper bounds in seconds; waits end within 45.
const DURATION_BUCKETS: [f64; 9] = [0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];
/// The recorder buffers durations until they are summed; without a scraper we sum them this often.
const CALLS_BETWEEN_SUMS: u64 = 1_000;

/// The metrics of one server, not of the process, so that several servers in one process do not mix.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    calls: AtomicU64,
}

/// One answered request.
#[derive(Debug)]
pub(super) struct HttpCall {
    pub(super) method: &'static str,
    pub(super) route: String,
    pub(super) status: StatusCode,
    pub(super) took: Duration,
}

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default().routes(routes!(metrics))
}

/// Shows metrics of the fleet and its HTTP traffic.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, body = String, content_type = "text/plain", description = "Prometheus text.")))]
async fn metrics(
    State(state): State<WebState>,
    caller: Caller,
    Arguments(NoInput {}): Arguments<NoInput>,
) -> Result<impl IntoResponse, Problem> {
    let overview = state.fleet.fleet_status(&caller).await?;
    let operations = state.fleet.operations_under_way().await?;
    state.metrics.set_fleet(&overview, operations, state.version);
    let text = state.metrics.0.handle.render() + &agents_text(&overview.usage);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

impl Metrics {
    pub fn new() -> Self {
        // Only an empty list of buckets is refused, and ours is not empty.
        let builder = PrometheusBuilder::new().set_buckets(&DURATION_BUCKETS).unwrap_or_default();
        let recorder = builder.build_recorder();
        metrics::with_local_recorder(&recorder, describe);
        Self(Arc::new(Inner { handle: recorder.handle(), recorder, calls: AtomicU64::new(0) }))
    }

    pub(super) fn count_call(&self, call: &HttpCall) {
        metrics::with_local_recorder(&self.0.recorder, || {
            let (route, status) = (call.route.clone(), call.status.as_str().to_owned());
            counter!(REQUESTS, "method" => call.method, "route" => route.clone(), "status" => status)
                .increment(1);
            histogram!(DURATION, "method" => call.method, "route" => route).record(call.took.as_secs_f64());
        });
        let n_calls = self.0.calls.fetch_add(1, Ordering::Relaxed);
        if n_calls.is_multiple_of(CALLS_BETWEEN_SUMS) {
            self.0.handle.run_upkeep();
        }
    }

    fn set_fleet(&self, overview: &FleetOverview, operations: usize, version: &'static str) {
        metrics::with_local_recorder(&self.0.recorder, || {
            gauge!(BUILD_INFO, "version" => version).set(1.0);
            for status in AgentStatus::ALL {
                let n_agents = overview.counts.get(status).copied().unwrap_or(0);
                gauge!(AGENTS, "status" => status.word()).set(n_agents as f64);
            }
            gauge!(OPERATIONS).set(operations as f64);
            gauge!(SLOTS, "state" => "used").set(overview.slots.used as f64);
            gauge!(SLOTS, "state" => "free").set(overview.slots.free as f64);
            gauge!(SLOTS, "state" => "queued").set(overview.slots.queued as f64);
            gauge!(CODER).set(f64::from(u8::from(overview.coder.is_reachable())));
            let spent = &overview.spend_today;
            gauge!(SPEND_USD).set(spent.all.cost_usd().unwrap_or_default());
            gauge!(SPEND_TOKENS).set(spent.all.tokens() as f64);
            gauge!(UNKNOWN_RUNS).set(spent.all.unknown_runs as f64);
        });
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A recorder keeps labels for ever, so each scrape has its own for the labels of agents.
fn agents_text(usage: &[(AgentName, UsageTotal)]) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        describe_gauge!(AGENT_USD, "Known cost of each agent, in dollars.");
        describe_gauge!(AGENT_TOKENS, "Tokens used by each agent.");
        for (name, total) in usage {
            gauge!(AGENT_TOKENS, "agent" => name.to_string()).set(total.all.tokens() as f64);
            if let Some(cost) = total.all.cost_usd() {
                gauge!(AGENT_USD, "agent" => name.to_string()).set(cost);
            }
        }
    });
    recorder.handle().render()
}

fn describe() {
    describe_gauge!(BUILD_INFO, "Always 1; the label has the running version.");
    describe_gauge!(AGENTS, "Agents by status.");
    describe_gauge!(OPERATIONS, "Operations that have not ended.");
    describe_gauge!(SLOTS, "Workspace build slots: used, free and queued.");
    describe_gauge!(CODER, "1 while Coder is reachable, else 0.");
    describe_gauge!(SPEND_USD, "Known cost of all agents on this UTC day, in dollars.");
    describe_gauge!(SPEND_TOKENS, "Tokens used by all agents on this UTC day.");
    describe_gauge!(UNKNOWN_RUNS, "Runs of this UTC day that reported no usage.");
    describe_counter!(REQUESTS, "Requests, by method, route and status.");
    describe_histogram!(DURATION, Unit::Seconds, "Seconds until the start of the response.");
}
