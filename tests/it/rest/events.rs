//! The stream of changes: from now on, from a number on, again after a cut, until the server stops.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use fleet_mcp::app::Fleet;
use fleet_mcp::app::agents::{AgentChange, DeleteAgent, UnpushedWork};
use fleet_mcp::app::catalog::{Catalog, CatalogDirs};
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::role::RoleKind;
use fleet_mcp::domain::status::Verdict;
use fleet_mcp::store::{NewSighting, Store, StoreOptions};
use futures_util::{Stream, StreamExt};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Server;
use crate::harness::{
    Api, FaultProxy, Matches, ProxyFault, Reply, Rule, When, client, fleet_options, operator, read,
};

const EVENTS: &str = "/api/v1/events";
/// Far beyond what a slow machine needs: reaching it means that nothing will come.
const DEADLINE: Duration = Duration::from_secs(30);
/// After this long a client may take a stream for dead; one that is not only comes again.
const SILENCE: Duration = Duration::from_secs(1);

/// One frame of the stream; comments that keep it alive are left out.
#[derive(Debug, PartialEq)]
struct Frame {
    id: i64,
    event: Option<String>,
    data: Value,
}

impl Frame {
    fn agent(&self) -> (&str, &str) {
        (self.data["name"].as_str().unwrap(), self.data["status"].as_str().unwrap())
    }
}

/// An open stream.
struct Frames {
    bytes: std::pin::Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>,
    text: String,
}

impl Frames {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        // A cut ends the stream for its reader, as the server's own end does.
        let bytes = response.bytes_stream().take_while(|chunk| std::future::ready(chunk.is_ok()));
        let bytes = bytes.map(|chunk| chunk.unwrap().to_vec());
        Self { bytes: Box::pin(bytes), text: String::new() }
    }

    /// The next frame, or none when the server has ended the stream.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let frame = frame.to_owned();
                self.text = rest.to_owned();
                if !frame.starts_with(':') {
                    return Some(parse(&frame));
                }
                continue;
            }
            let chunk = tokio::time::timeout(DEADLINE, self.bytes.next()).await;
            self.text += &String::from_utf8(chunk.expect("something is sent")?).unwrap();
        }
    }

    /// Reads until this agent has this status; returns all frames read.
    async fn until(&mut self, name: &str, status: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.last().map(Frame::agent) != Some((name, status)) {
            frames.push(self.next().await.expect("the stream goes on"));
        }
        frames
    }
}

fn parse(frame: &str) -> Frame {
    let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Frame {
        id: field("id").unwrap().parse().unwrap(),
        event: field("event").map(str::to_owned),
        data: field("data").map_or(Value::Null, |data| serde_json::from_str(data).unwrap()),
    }
}

/// What a client knows that has read these.
fn known(frames: &[Frame]) -> BTreeMap<&str, &str> {
    frames.iter().map(Frame::agent).collect()
}

fn is_rising(frames: &[Frame]) -> bool {
    frames.is_sorted_by(|one, next| one.id < next.id)
}

fn from_now(server: &Server) -> RequestBuilder {
    server.request(Method::GET, EVENTS)
}

fn after(server: &Server, id: i64) -> RequestBuilder {
    from_now(server).header("Last-Event-ID", id.to_string())
}

async fn stop(server: &Server, name: &str) -> Reply {
    server.post(&format!("/api/v1/agents/{name}/stop"), &json!({ "wait_seconds": 45 })).await
}

#[tokio::test]
async fn a_stream_starts_now_and_tells_each_change_as_the_wait_does() {
    let server = Server::start().await;
    server.agent("otter").await;
    let mut frames = Frames::open(from_now(&server)).await;
    let first = frames.next().await.unwrap();
    assert_eq!((first.event, first.data), (None, Value::Null));

    stop(&server, "otter").await;
    let told = frames.until("otter", "stopped").await;
    assert!(is_rising(&told) && told[0].id > first.id, "{told:?}");
    let mut last = told.into_iter().next_back().unwrap();
    let wait = json!({ "agent_names": ["otter"], "cursor": (last.id - 1).to_string() });
    let mut waited = server.post("/api/v1/wait", &wait).await.body["changed"][0].take();
    // Being looked at again is no change, so the two may tell different looks.
    (last.data["observed_at"], waited["observed_at"]) = (Value::Null, Value::Null);
    assert_eq!((last.event.as_deref(), last.data), (Some("agent"), waited));
}

#[tokio::test]
async fn a_client_that_comes_again_gets_all_that_changed_meanwhile_and_nothing_else() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.agent("heron").await;
    server.agent("quiet").await;
    let mut frames = Frames::open(server.request(Method::GET, "/api/v1/events?after=0")).await;
    assert_eq!(frames.next().await.unwrap().id, 0);
    let told = frames.until("quiet", "idle").await;
    assert_eq!(known(&told), BTreeMap::from([("heron", "idle"), ("otter", "idle"), ("quiet", "idle")]));
    let last = told.last().unwrap().id;
    drop(frames);

    stop(&server, "heron").await;
    server.agent("newcomer").await;
    server.delete("/api/v1/agents/otter?wait_seconds=45").await;
    let mut frames = Frames::open(after(&server, last)).await;
    assert_eq!(frames.next().await.unwrap().id, last);
    let told = frames.until("otter", "deleted").await;
    let expected = [("heron", "stopped"), ("newcomer", "idle"), ("otter", "deleted")];
    assert_eq!(known(&told), BTreeMap::from(expected));
    assert!(is_rising(&told) && told[0].id > last, "{told:?}");
}

#[tokio::test]
async fn a_stream_cut_anywhere_goes_on_where_it_was_and_one_that_is_silent_loses_nothing() {
    let server = Server::start().await;
    for name in ["otter", "heron", "quiet"] {
        server.agent(name).await;
    }
    let proxy = FaultProxy::start(&server.url).await;
    let (api, token) = (Api::new(&proxy.url(), ""), server.token(RoleKind::Operator).await);
    // Within the first event, within a later one, and between two.
    let cuts = [1, 15, 60, 200, 700, 300].map(|bytes| ProxyFault::CutInBody { bytes });
    let faults = cuts.into_iter().chain([ProxyFault::SilenceInBody { bytes: 60 }]);
    let rules: Vec<_> = (1..)
        .zip(faults)
        .map(|(n, kind)| proxy.fault(Rule { matches: Matches::path(EVENTS), when: When::Nth(n), kind }))
        .collect();
    let mut told: Vec<Frame> = Vec::new();
    for _ in 0..rules.len() {
        let mut frames = again(&api, &token, &told).await;
        while let Ok(Some(frame)) = tokio::time::timeout(SILENCE, frames.next()).await {
            told.extend(frame.event.is_some().then_some(frame));
        }
    }
    assert_eq!(rules.into_iter().map(|rule| proxy.fault_hits(rule)).collect::<Vec<_>>(), [1; 7]);
    stop(&server, "heron").await;
    let mut frames = again(&api, &token, &told).await;
    assert_eq!(frames.next().await.map(|mark| mark.id), told.last().map(|frame| frame.id));
    let rest = frames.until("heron", "stopped").await;
    assert!((1..3).contains(&told.len()), "some came through before: {told:?}");
    told.extend(rest);
    assert!(is_rising(&told), "none is told twice: {told:?}");
    assert_eq!(known(&told), BTreeMap::from([("heron", "stopped"), ("otter", "idle"), ("quiet", "idle")]));
}

/// Opens the stream behind what was told already.
async fn again(api: &Api, token: &str, told: &[Frame]) -> Frames {
    let last = told.last().map_or(0, |frame| frame.id);
    let request = api.bare(Method::GET, EVENTS).bearer_auth(token).header("Last-Event-ID", last.to_string());
    Frames::open(request).await
}

#[tokio::test]
async fn the_header_of_a_client_that_reconnects_beats_the_address_it_started_with() {
    let server = Server::start().await;
    server.agent("otter").await;
    let newest = server.scene.running.fleet.board().revision();
    let request = server.request(Method::GET, "/api/v1/events?after=0");
    let mut frames = Frames::open(request.header("Last-Event-ID", newest.to_string())).await;
    assert_eq!(frames.next().await.unwrap().id, newest);
}

#[tokio::test]
async fn a_number_that_was_never_given_out_starts_from_the_beginning() {
    let server = Server::start().await;
    server.agent("otter").await;
    let mut frames = Frames::open(after(&server, 1_000_000)).await;
    assert_eq!(frames.next().await.unwrap().id, 0);
    assert_eq!(known(&frames.until("otter", "idle").await), BTreeMap::from([("otter", "idle")]));
}

#[tokio::test]
async fn a_client_that_reads_late_ends_with_the_newest_state_of_every_agent() {
    let server = Server::start().await;
    server.agent("otter").await;
    let mut frames = Frames::open(from_now(&server)).await;
    frames.next().await.unwrap();
    for summary in ["one", "two", "three"] {
        server.scene.coder.post_app_status("otter", "working", summary);
        server.scene.running.becomes("otter", AgentStatus::Busy).await;
        server.scene.coder.post_app_status("otter", "idle", summary);
        server.scene.running.becomes("otter", AgentStatus::Idle).await;
    }
    stop(&server, "otter").await;
    let told = frames.until("otter", "stopped").await;
    assert!(is_rising(&told), "{told:?}");
    let newest = server.scene.running.fleet.board().revision();
    assert_eq!(told.last().unwrap().id, newest);
}

#[tokio::test]
async fn a_stream_ends_when_the_server_stops() {
    let server = Server::start().await;
    let mut frames = Frames::open(from_now(&server)).await;
    frames.next().await.unwrap();
    server.shutdown.cancel();
    assert_eq!(frames.next().await, None);
    server.stopped().await;
}

#[tokio::test]
async fn a_token_that_is_revoked_meanwhile_is_told_nothing_more() {
    let server = Server::start().await;
    server.agent("otter").await;
    let token = server.token_until(Utc::now() + TimeDelta::hours(1)).await;
    let mut frames = Frames::open(server.request_as(&token, Method::GET, EVENTS)).await;
    frames.next().await.unwrap();
    let known = server.get("/api/v1/tokens").await.body;
    let id = known["tokens"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    server.delete(&format!("/api/v1/tokens/{id}")).await;
    stop(&server, "otter").await;
    assert_eq!(frames.next().await, None);
}

#[tokio::test]
async fn a_place_to_go_on_from_that_is_no_number_is_refused() {
    let server = Server::start().await;
    let refused = |reply: Reply| (reply.status, reply.body["details"]["field"].clone());
    let header = read(from_now(&server).header("Last-Event-ID", "yesterday")).await.unwrap();
    assert_eq!(refused(header), (400, json!("Last-Event-ID")));
    let query = server.get("/api/v1/events?after=yesterday").await;
    assert_eq!(refused(query), (400, json!("after")));
}

#[tokio::test]
async fn a_change_that_only_the_record_knows_yet_is_not_passed_over_by_a_later_one() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.agent("heron").await;
    let (url, token) = (server.scene.coder.url().to_owned(), server.scene.coder.token());
    let directory = server.scene.running.stop().await;
    let (store, fleet) = fleet_at_rest(&directory, &url, &token).await;
    let seen = fleet.board().revision();
    let otter = fleet.board().now().by_name("otter").unwrap().agent.id;
    let verdict = Verdict::new(AgentStatus::Stopped, "the workspace is stopped");
    store.agent_sight(otter, &NewSighting { verdict, generation: 1, observed_at: None }).await.unwrap();
    let delete =
        DeleteAgent { name: "heron".into(), work: UnpushedWork::Keep, request: None, wait: Duration::ZERO };
    fleet.agent_delete(&operator(), delete).await.unwrap();

    let row = |changed: &AgentChange| {
        let agent = &changed.agent.agent;
        (agent.name.to_string(), agent.sighting.status, changed.revision)
    };
    let told: Vec<_> = fleet.changes_after(seen).await.unwrap().iter().map(row).collect();
    let expected = [
        ("otter".to_owned(), AgentStatus::Stopped, seen + 1),
        ("heron".to_owned(), AgentStatus::Deleting, seen + 2),
    ];
    assert_eq!(told, expected);
}

/// A fleet whose reconcilers do not run, so that nothing moves but by the test's hand.
async fn fleet_at_rest(directory: &TempDir, url: &str, token: &str) -> (Store, Fleet) {
    let options =
        StoreOptions { path: directory.path().join("fleet.db"), backups: directory.path().join("backups") };
    let store = Store::open(&options).await.unwrap();
    let catalog = Catalog::open(CatalogDirs::default());
    let fleet = Fleet::open(store.clone(), client(url, token), catalog, fleet_options()).await.unwrap();
    (store, fleet)
}
