//! A fleet on an embedded Coder: agents that really work, in directories and processes of their own.

use std::sync::Arc;
use std::time::Duration;

use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::error::Error;
use fleet_mcp::app::tasks::{CancelTask, StartTask, TaskCanceled, TaskStarted};
use fleet_mcp::coder::{AppAddress, AppReply, AppRequest};
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::history::HistoryKind;
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::spec::Spec;
use fleet_mcp::domain::task::{Task, TaskState, WhenBusy};
use serde_json::Value;

use super::{
    LocalSite, RunningFleet, RunningLocal, client, create_command, eventually, fleet_options, operator,
    project,
};

/// A fleet with its embedded Coder. Fields are dropped in this order: the client before its server.
pub(crate) struct Crew {
    pub(crate) running: RunningFleet,
    pub(crate) local: RunningLocal,
    pub(crate) site: LocalSite,
}

impl Crew {
    pub(crate) async fn new() -> Self {
        Self::on(LocalSite::new()).await
    }

    pub(crate) async fn on(site: LocalSite) -> Self {
        Self::on_with(site, fleet_options()).await
    }

    async fn on_with(site: LocalSite, options: FleetOptions) -> Self {
        let site = site.project(project("setup", None));
        let local = site.start().await;
        let (directory, coder) = (Arc::new(tempfile::tempdir().unwrap()), client(&local.url, &local.token));
        let running = RunningFleet::start_with(directory, coder, options).await.seen().await;
        Self { running, local, site }
    }

    /// An agent that has done its spec and waits.
    pub(crate) async fn with(name: &str) -> Self {
        let crew = Self::new().await;
        crew.agent(name).await;
        crew
    }

    pub(crate) async fn with_options(name: &str, options: FleetOptions) -> Self {
        let crew = Self::on_with(LocalSite::new(), options).await;
        crew.agent(name).await;
        crew
    }

    pub(crate) async fn agent(&self, name: &str) {
        self.create(name, "say ready").await;
        self.rests(name).await;
    }

    /// Creates an agent and returns before it is ready.
    pub(crate) async fn create(&self, name: &str, spec: &str) {
        let mut command = create_command(name);
        command.spec = Spec::parse(spec).unwrap();
        self.running.fleet.agent_create(&operator(), command).await.unwrap();
    }

    /// Waits until the agent is idle and has nothing left to do.
    pub(crate) async fn rests(&self, name: &str) {
        self.until(name, "it rests", |status, task| status == AgentStatus::Idle && task.is_none()).await;
    }

    pub(crate) async fn works(&self, name: &str) {
        self.until(name, "it works", |status, task| {
            status == AgentStatus::Busy && task.is_some_and(|task| task.state() == TaskState::Working)
        })
        .await;
    }

    pub(crate) async fn start(
        &self,
        name: &str,
        task: &str,
        when_busy: WhenBusy,
    ) -> Result<TaskStarted, Error> {
        let request = StartTask {
            name: name.to_owned(),
            description: task.to_owned(),
            when_busy,
            timeout: None,
            request: None,
        };
        self.running.fleet.task_start(&operator(), request).await
    }

    /// Gives a task to an agent that is free. Its report of work may reach Coder after its task has ended, and
    /// shows it busy until the next report.
    pub(crate) async fn give(&self, name: &str, task: &str) -> TaskId {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            match self.start(name, task, WhenBusy::Reject).await {
                Err(Error::Busy(_)) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                started => return started.unwrap().task.id,
            }
        }
    }

    pub(crate) async fn cancel(&self, name: &str) -> Result<TaskCanceled, Error> {
        let request = CancelTask { name: name.to_owned(), all: false, escalate: false };
        self.running.fleet.task_cancel(&operator(), request).await
    }

    /// Asks the agent's app past the fleet, as people do.
    pub(crate) async fn ask_app(&self, name: &str, request: AppRequest) -> AppReply {
        let app = AppAddress {
            owner: "fleet".to_owned(),
            workspace: name.to_owned(),
            agent: None,
            slug: "ccw".to_owned(),
        };
        self.local.client().app_request(&app, request).await.unwrap()
    }

    /// Waits until the agent's words in this conversation begin so.
    pub(crate) async fn says(&self, name: &str, words: &str) {
        let wanted = format!(r#""content":"{words}"#);
        eventually("the words are said", async || {
            let shown = self.ask_app(name, AppRequest::get("/messages")).await.body;
            String::from_utf8_lossy(&shown).contains(&wanted)
        })
        .await;
    }

    /// The task once it has ended.
    pub(crate) async fn ended(&self, task: TaskId) -> Task {
        let ended = async {
            loop {
                let found = self.running.store.task_by_id(task).await.unwrap().unwrap();
                if found.state().is_ended() {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), ended).await.expect("the task ends")
    }

    /// Waits until nothing of an engine is left. A runner has processes of its own for a moment, to look at git.
    pub(crate) async fn only_the_runner_is_left(&self) {
        eventually("only the runner is left", async || self.site.processes().len() == 1).await;
    }

    /// State, text and outcome of the agent's tasks, oldest first.
    pub(crate) async fn tasks(&self, name: &str) -> Vec<(String, String, Option<String>)> {
        let agent = self.running.store.agent_newest_by_name(name).await.unwrap().unwrap();
        let page = PageRequest::parse(1, 100).unwrap();
        let page =
            self.running.store.history_page(agent.id, Some(HistoryKind::Task), page).await.unwrap().page;
        let row = |entry: &fleet_mcp::domain::history::HistoryEntry| {
            let outcome = entry.outcome().map(str::to_owned);
            (entry.state().to_owned(), entry.line().message.clone(), outcome)
        };
        page.items.iter().rev().map(row).collect()
    }

    /// The texts that the agent's runner took, in the order it took them.
    pub(crate) fn taken(&self, name: &str) -> Vec<String> {
        taken_in(&self.site.workspace(name).join("fleet/journal.jsonl"))
    }

    /// All texts that were delivered to the agent's runner, with those that its engine never had.
    pub(crate) fn delivered(&self, name: &str) -> Vec<String> {
        let turns = turns_in(&self.site.workspace(name).join("fleet/journal.jsonl"));
        turns.into_iter().map(|turn| turn.message).collect()
    }

    async fn until(&self, name: &str, what: &str, holds: impl Fn(AgentStatus, Option<&Task>) -> bool) {
        let mut changes = self.running.fleet.board().changes();
        let is_so = || {
            let snapshot = self.running.fleet.board().now();
            let state = snapshot.by_name(name);
            state.is_some_and(|state| holds(state.agent.sighting.status, state.tasks.open.as_ref()))
        };
        let wanted = async {
            while !is_so() {
                // Tasks move without a visible change too, so the change is not waited for alone.
                let pause = tokio::time::sleep(Duration::from_millis(50));
                tokio::select! {
                    _ = changes.changed() => {}
                    () = pause => {}
                }
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(90), wanted).await;
        let snapshot = self.running.fleet.board().now();
        let state = snapshot.by_name(name).map(|state| (&state.agent.sighting, &state.tasks));
        assert!(found.is_ok(), "not so that {what}: {state:#?}");
    }
}

/// The messages of a runner's journal. One that a stop of the workspace kept from its engine is not taken: it is
/// delivered again.
pub(crate) fn taken_in(journal: &std::path::Path) -> Vec<String> {
    turns_in(journal).into_iter().filter(|turn| !turn.is_unbegun).map(|turn| turn.message).collect()
}

/// A turn of a runner's journal.
struct JournaledTurn {
    message: String,
    is_unbegun: bool,
}

fn turns_in(journal: &std::path::Path) -> Vec<JournaledTurn> {
    let lines = std::fs::read_to_string(journal).unwrap_or_default();
    let mut turns: Vec<JournaledTurn> = Vec::new();
    for entry in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        match entry["entry"].as_str() {
            Some("accepted") => {
                let message = entry["content"].as_str().unwrap_or_default().to_owned();
                turns.push(JournaledTurn { message, is_unbegun: false });
            }
            Some("ended") => {
                let turn = usize::try_from(entry["turn"].as_u64().unwrap()).unwrap();
                turns[turn].is_unbegun = entry["outcome"]["by"] == "unbegun";
            }
            Some(_) | None => {}
        }
    }
    turns
}
