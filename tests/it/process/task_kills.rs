//! Kill -9 of the control plane while it brings tasks to agents: none is lost, none is done twice.

use std::time::Duration;

use serde_json::{Value, json};

use super::creation;
use crate::harness::{LocalSite, Program, RunningLocal, eventually, moments, project, rounds, taken_in};

/// A server process on an embedded Coder that outlives it.
struct Plant {
    program: Program,
    local: RunningLocal,
    site: LocalSite,
}

impl Plant {
    async fn with_agents(names: &[&str]) -> Self {
        let site = LocalSite::new().project(project("setup", None));
        let local = site.start().await;
        let program = Program::new(&local.url, &local.token);
        let plant = Self { program, local, site };
        let server = plant.program.serve().await;
        for name in names {
            plant.program.json(&creation("say ready", name)).await;
        }
        for name in names {
            plant.rests(name).await;
        }
        server.terminate().await;
        plant
    }

    /// Waits until an agent has nothing left to do.
    async fn rests(&self, name: &str) {
        eventually("the agent rests", async || {
            let waited = self.program.run(&["--json", "tasks", "wait", name, "--timeout", "20"]).await;
            waited.status.success()
        })
        .await;
    }

    fn taken(&self, name: &str) -> Vec<String> {
        taken_in(&self.site.workspace(name).join("fleet/journal.jsonl"))
    }

    async fn states(&self, name: &str) -> Vec<String> {
        let mut states = Vec::new();
        for page in 1.. {
            let page = page.to_string();
            let query = [
                "--json",
                "agents",
                "history",
                name,
                "--kind",
                "task",
                "--page-size",
                "100",
                "--page",
                &page,
            ];
            let history = self.program.json(&query).await;
            let rows = history["tasks"].as_array().unwrap().iter();
            states.extend(rows.map(|row| row["state"].as_str().unwrap().to_owned()));
            if history["has_next_page"] == json!(false) {
                break;
            }
        }
        states
    }
}

/// How each turn of a runner's journal ended, and how often the engine was begun for it.
fn engine_runs(journal: &std::path::Path) -> Vec<(String, usize)> {
    let lines = std::fs::read_to_string(journal).unwrap();
    let entries: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &'static str| entries.iter().filter(move |entry| entry["entry"] == kind);
    let ends = of("ended").map(|ended| {
        let n_begun = of("started").filter(|started| started["turn"] == ended["turn"]).count();
        (ended["outcome"]["outcome"].as_str().unwrap().to_owned(), n_begun)
    });
    ends.collect()
}

/// Numbers that look random and are the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A task that a client retries with the same key until a server has acknowledged it.
struct Wish {
    agent: &'static str,
    text: String,
    is_acknowledged: bool,
}

impl Wish {
    async fn send(&mut self, http: &reqwest::Client, url: &str, token: &str) {
        let body = json!({ "task_description": self.text, "when_busy": "queue" });
        let request = http
            .post(format!("{url}api/v1/agents/{}/tasks", self.agent))
            .bearer_auth(token)
            .header("Idempotency-Key", &self.text)
            .json(&body);
        if let Ok(answer) = request.send().await
            && answer.status() == 201
            && answer.json::<Value>().await.is_ok()
        {
            self.is_acknowledged = true;
        }
    }
}

const AGENTS: [&str; 2] = ["one", "two"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_any_moment_lose_no_task_and_do_none_twice() {
    let plant = Plant::with_agents(&AGENTS).await;
    let token = std::fs::read_to_string(plant.program.data_dir().join("operator.token")).unwrap();
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    let mut dice = Dice(7);
    let mut wishes: Vec<Wish> = Vec::new();
    for number in 0..rounds(200, 24) {
        let mut server = plant.program.serve().await;
        wishes.push(Wish {
            agent: AGENTS[number % 2],
            text: format!("say {number}"),
            is_acknowledged: false,
        });
        let open = wishes.iter_mut().filter(|wish| !wish.is_acknowledged);
        let wanted = async {
            for wish in open {
                wish.send(&http, &server.url, token.trim()).await;
            }
            std::future::pending::<()>().await;
        };
        // Not a wait for something: the moment of the kill is what varies.
        let moment = Duration::from_millis(dice.roll(180));
        tokio::time::timeout(moment, wanted).await.ok();
        server.child.start_kill().unwrap();
        server.child.wait().await.unwrap();
    }
    let server = plant.program.serve().await;
    for wish in wishes.iter_mut().filter(|wish| !wish.is_acknowledged) {
        wish.send(&http, &server.url, token.trim()).await;
        assert!(wish.is_acknowledged, "{}", wish.text);
    }
    for name in AGENTS {
        plant.rests(name).await;
        let mut taken = plant.taken(name);
        let mut expected: Vec<String> =
            wishes.iter().filter(|w| w.agent == name).map(|w| w.text.clone()).collect();
        expected.push("say ready".to_owned());
        taken.sort();
        expected.sort();
        assert_eq!(taken, expected, "each exactly once");
        let journal = plant.site.workspace(name).join("fleet/journal.jsonl");
        assert_eq!(engine_runs(&journal), vec![("complete".to_owned(), 1); taken.len()], "and run once");
        assert!(plant.states(name).await.iter().all(|state| state == "done"));
    }
    assert_eq!(server.terminate().await, Some(0));
    plant.local.coder.stop().await;
}

#[cfg(feature = "test-hooks")]
mod with_hooks {
    use super::*;

    const POINTS_OF_START: [&str; 7] = [
        "task.accepted",
        "task.recorded",
        "task.answered",
        "task.taking",
        "task.taken",
        "task.ending",
        "task.ended",
    ];
    const POINTS_OF_CANCEL: [&str; 4] = ["cancel.accepted", "task.interrupted", "task.ending", "task.ended"];

    /// Runs a command on a server that dies at the point.
    async fn killed_at(plant: &Plant, point: &str, arguments: &[&str]) {
        let mut doomed = plant.program.clone().variable("FLEET_KILL_POINT", point).serve().await;
        plant.program.run(arguments).await;
        let ended = tokio::time::timeout(Duration::from_secs(30), doomed.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("the server did not die at {point}")).unwrap();
        assert_eq!(status.code(), None, "{point}: killed, not ended: {}", plant.program.log());
    }

    #[tokio::test]
    async fn a_task_is_done_once_from_every_point() {
        let plant = Plant::with_agents(&["one"]).await;
        let mut expected = vec!["say ready".to_owned()];
        for point in moments(&POINTS_OF_START) {
            // It takes a moment, so that it is seen at work before it is seen to have ended.
            let text = format!("sleep 3\nsay {point}");
            // A new server believes the agent's last report until it has asked the agent itself: it may look busy.
            let start = ["--json", "tasks", "start", "one", &text, "--when-busy", "queue"];
            killed_at(&plant, point, &start).await;
            let server = plant.program.serve().await;
            plant.rests("one").await;
            expected.push(text);
            assert_eq!(plant.taken("one"), expected, "{point}");
            assert!(plant.states("one").await.iter().all(|state| state == "done"), "{point}");
            assert_eq!(server.terminate().await, Some(0));
        }
        plant.local.coder.stop().await;
    }

    #[tokio::test]
    async fn a_cancel_is_carried_out_from_every_point() {
        let plant = Plant::with_agents(&["one"]).await;
        for (number, point) in moments(&POINTS_OF_CANCEL).into_iter().enumerate() {
            let text = format!("sleep 60{number}");
            let server = plant.program.serve().await;
            // A new server believes the agent's last report until it has asked the agent itself.
            plant.rests("one").await;
            plant.program.json(&["--json", "tasks", "start", "one", &text]).await;
            eventually("it works", async || plant.taken("one").contains(&text)).await;
            assert_eq!(server.terminate().await, Some(0));
            killed_at(&plant, point, &["--json", "tasks", "cancel", "one"]).await;
            let server = plant.program.serve().await;
            plant.rests("one").await;
            let states = plant.states("one").await;
            assert_eq!((states[0].as_str(), states.len()), ("canceled", number + 2), "{point}");
            eventually("nothing runs for it", async || plant.site.engines().is_empty()).await;
            assert_eq!(server.terminate().await, Some(0));
        }
        plant.local.coder.stop().await;
    }
}
