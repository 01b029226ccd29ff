//! Reports of work to Coder, which delay neither the engine nor callers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet_mcp::runner::RunnerLimits;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::workspace::Workspace;
use crate::harness::{TENTH, eventually, tenth};

const TOKEN: &str = "agent-token-of-ann";

/// A Coder that takes reports, or responds with this status.
struct Coder {
    server: MockServer,
    status: Arc<Mutex<u16>>,
    /// When each report came.
    times: Arc<Mutex<Vec<Instant>>>,
}

impl Coder {
    async fn start(status: u16) -> Self {
        let server = MockServer::start().await;
        let status = Arc::new(Mutex::new(status));
        let times = Arc::new(Mutex::new(Vec::new()));
        let (shared, noted) = (Arc::clone(&status), Arc::clone(&times));
        Mock::given(method("PATCH"))
            .and(path("/api/v2/workspaceagents/me/app-status"))
            .respond_with(move |_: &Request| {
                noted.lock().unwrap().push(Instant::now());
                ResponseTemplate::new(*shared.lock().unwrap()).set_body_json(Value::Null)
            })
            .mount(&server)
            .await;
        Self { server, status, times }
    }

    fn workspace(&self) -> Workspace {
        let workspace = Workspace::new().variable("CODER_AGENT_URL", &self.server.uri());
        workspace.variable("CODER_AGENT_TOKEN", TOKEN).variable("FLEET_APP_SLUG", "ccw")
    }

    fn answers(&self, status: u16) {
        *self.status.lock().unwrap() = status;
    }

    async fn reports(&self) -> Vec<Value> {
        let requests = self.server.received_requests().await.unwrap();
        for request in &requests {
            assert_eq!(request.headers["coder-session-token"], TOKEN);
        }
        requests.iter().map(|request| request.body_json().unwrap()).collect()
    }

    async fn until(&self, state: &str) -> Vec<Value> {
        eventually(&format!("{state} is reported"), async || {
            self.reports().await.last().is_some_and(|report| report["state"] == state)
        })
        .await;
        self.reports().await
    }
}

fn report(state: &str, message: &str) -> Value {
    json!({ "app_slug": "ccw", "state": state, "message": message, "uri": "" })
}

#[tokio::test]
async fn each_run_is_reported_from_its_beginning_to_its_end() {
    for (message, end) in [
        ("sleep 0.3\nsay well", report("complete", "well")),
        ("sleep 0.3\nfail it broke", report("failure", "it broke")),
        ("sleep 0.3\nask which?", report("idle", "ended with a question: which?")),
    ] {
        let coder = Coder::start(200).await;
        let workspace = coder.workspace();
        let runner = workspace.start().await;
        runner.say(message).await;
        let reports = coder.until(end["state"].as_str().unwrap()).await;
        assert_eq!(reports, [report("working", &message.replace('\n', " ")), end]);
    }
}

#[tokio::test]
async fn an_interrupted_run_is_reported_as_idle() {
    let coder = Coder::start(200).await;
    let workspace = coder.workspace();
    let runner = workspace.start().await;
    runner.say("hang").await;
    coder.until("working").await;
    runner.escape().await;
    let expected = [report("working", "hang"), report("idle", "Interrupted on request.")];
    assert_eq!(coder.until("idle").await, expected);
}

#[tokio::test]
async fn summaries_fit_into_160_bytes() {
    let coder = Coder::start(200).await;
    let workspace = coder.workspace();
    let runner = workspace.start().await;
    let said = "字".repeat(100);
    runner.say(&format!("sleep 0.3\nsay {said}")).await;
    let reports = coder.until("complete").await;
    let fitting = format!("{}…", "字".repeat(52));
    assert_eq!(
        reports,
        [report("working", &format!("sleep 0.3 say {}…", "字".repeat(47))), report("complete", &fitting)]
    );
    assert!(reports.iter().all(|report| report["message"].as_str().unwrap().len() <= 160));
}

/// A report is answered before the pause to the next one begins, so that the pause is never seen shorter.
#[tokio::test]
async fn many_short_runs_are_reported_no_faster_than_coder_likes() {
    let coder = Coder::start(200).await;
    let workspace = coder.workspace().variable(TENTH.0, TENTH.1);
    let runner = workspace.start().await;
    for number in 0..30 {
        runner.task(&format!("task {number}"), &format!("say {number}")).await;
    }
    runner.stable().await;
    eventually("the last one is reported", async || {
        coder.reports().await.last() == Some(&report("complete", "29"))
    })
    .await;
    let times = coder.times.lock().unwrap().clone();
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= RunnerLimits::NORMAL.divided_by(tenth()).report_gap), "{gaps:?}");
}

#[tokio::test]
async fn while_coder_is_away_work_goes_on_and_later_only_the_newest_counts() {
    let coder = Coder::start(503).await;
    let workspace = coder.workspace();
    let runner = workspace.start().await;
    for number in 0..3 {
        runner.ask(&format!("say {number}")).await;
    }
    eventually("Coder was asked in vain", async || !coder.reports().await.is_empty()).await;
    coder.answers(200);
    let n_refused = coder.reports().await.len();
    let reports = coder.until("complete").await;
    assert_eq!(reports.last(), Some(&report("complete", "2")));
    assert!(reports.len() <= n_refused + 2, "{reports:?}");
}

#[tokio::test]
async fn a_run_cut_short_by_a_kill_is_reported_as_a_failure() {
    let coder = Coder::start(200).await;
    let workspace = coder.workspace();
    let runner = workspace.start().await;
    runner.say("hang").await;
    coder.until("working").await;
    runner.kill().await;
    let _runner = workspace.start().await;
    let message = "Interrupted: the runner ended during this run; it is not run again.";
    assert_eq!(coder.until("failure").await, [report("working", "hang"), report("failure", message)]);
}

/// On a real Coder git asks Coder for its keys, and is refused there without the token.
#[tokio::test]
async fn the_engine_gets_the_agents_token_only_where_its_git_needs_it() {
    let coder = Coder::start(200).await;
    for (ssh, is_told) in [("ssh -i key", false), ("/tmp/coder.x/coder gitssh --", true)] {
        let workspace = coder.workspace().variable("GIT_SSH_COMMAND", ssh);
        let runner = workspace.start().await;
        runner.say("hang").await;
        eventually("it runs", async || !workspace.processes_of_runs().is_empty()).await;
        for number in workspace.processes_of_runs() {
            let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap();
            let has_it = environment.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
            assert_eq!(has_it, is_told, "{ssh}");
        }
        runner.escape().await;
        runner.stable().await;
    }
}
