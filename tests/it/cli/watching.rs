//! `agents list --watch`: redrawn at every change, through breaks, until it is interrupted.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wiremock::ResponseTemplate;
use wiremock::matchers::header;

use super::answers::{change, error, list, row};
use super::{Rig, authorized};

/// A stream that tells its events and breaks off.
fn stream(events: &[(&str, &fleet_mcp::view::agent::ChangedAgent)]) -> ResponseTemplate {
    let told = events.iter().map(|(id, agent)| {
        format!("event: agent\nid: {id}\ndata: {}\n\n", serde_json::to_string(agent).unwrap())
    });
    let body: String = std::iter::once(": hello\n\n".to_owned()).chain(told).collect();
    ResponseTemplate::new(200).set_body_raw(body, "text/event-stream")
}

struct Watch {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(rig: &Rig, line: &str) -> Self {
        let mut child = rig.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Ctrl-C; gives the exit code and what was said on standard error.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).unwrap();
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (code, said)
    }
}

#[tokio::test]
async fn with_json_every_change_is_a_line_and_none_is_lost_at_a_break() {
    let rig = Rig::start().await;
    let first = change("fix-login", "starting", "idle");
    let second = change("fix-login", "idle", "busy");
    let third = change("calm-heron", "idle", "busy");
    let after_break = authorized("GET /events").and(header("last-event-id", "8"));
    after_break.respond_with(stream(&[("9", &third)])).up_to_n_times(1).mount(&rig.server).await;
    let beginning = authorized("GET /events");
    let told = stream(&[("7", &first), ("8", &second)]);
    beginning.respond_with(told).up_to_n_times(1).mount(&rig.server).await;
    authorized("GET /events").respond_with(stream(&[])).mount(&rig.server).await;

    let mut watch = Watch::start(&rig, "agents list --watch --json");
    let lines = [watch.line(), watch.line(), watch.line()];
    let read = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    assert_eq!(read, [&first, &second, &third].map(|change| serde_json::to_value(change).unwrap()));
    assert_eq!(watch.interrupt().0, Some(0));
}

#[tokio::test]
async fn the_list_is_drawn_at_once_and_again_after_each_break() {
    let rig = Rig::start().await;
    let before = ResponseTemplate::new(200).set_body_json(list(vec![row("fix-login", "starting")]));
    authorized("GET /agents").respond_with(before).up_to_n_times(1).mount(&rig.server).await;
    rig.answers("GET /agents", &list(vec![row("fix-login", "idle")])).await;
    authorized("GET /events").respond_with(stream(&[])).mount(&rig.server).await;

    let mut watch = Watch::start(&rig, "agents list --watch");
    let drawn = [watch.line(), watch.line(), watch.line(), watch.line()];
    let header = "NAME       STATUS    ROLE   PROJECT  DOING           USED  SEEN";
    assert_eq!(
        drawn,
        [
            header,
            "fix-login  starting  coder  setup    it is starting        3 d ago",
            "NAME       STATUS  ROLE   PROJECT  DOING       USED  SEEN",
            "fix-login  idle    coder  setup    it is idle        3 d ago",
        ]
    );
    let (code, said) = watch.interrupt();
    assert_eq!(code, Some(0));
    assert!(said.contains("reconnecting\n"), "{said}");
}

#[tokio::test]
async fn only_changes_that_were_asked_for_are_printed() {
    let rig = Rig::start().await;
    let other = change("other", "idle", "busy");
    let leaves = change("leaves", "failed", "idle");
    let told = stream(&[("1", &other), ("2", &leaves)]);
    authorized("GET /events").respond_with(told).mount(&rig.server).await;
    let mut watch = Watch::start(&rig, "agents list --watch --json --status failed --project SETUP");
    let read: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!(read["name"], "leaves");
    assert_eq!(watch.interrupt().0, Some(0));
}

#[tokio::test]
async fn a_token_revoked_meanwhile_ends_the_watch() {
    let rig = Rig::start().await;
    authorized("GET /events").respond_with(stream(&[])).up_to_n_times(1).mount(&rig.server).await;
    let refusal = error("UNAUTHENTICATED", "the token is not valid", "Ask for another token.");
    rig.refuses("GET /events", 401, &refusal).await;
    insta::assert_snapshot!(rig.run("agents list --watch --json"));
}
