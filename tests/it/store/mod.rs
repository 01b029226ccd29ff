//! The store: what is committed stays, what is unique stays unique, what has ended stays ended.

mod agents;
mod journal;
mod opening;
mod operations;
mod records;
mod rescues;
mod runs;
mod sightings;
mod tasks;
mod usage;

use chrono::{DateTime, Utc};
use fleet_mcp::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use fleet_mcp::domain::history::{HistoryLine, Report};
use fleet_mcp::domain::id::{AgentId, TaskId, WorkspaceId};
use fleet_mcp::domain::name::AgentName;
use fleet_mcp::domain::operation::{Operation, OperationKind};
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::{Task, TaskOrigin, TaskSource, TaskWork};
use fleet_mcp::domain::words::AppState;
use fleet_mcp::store::{Store, StoreError, StoreOptions};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
use uuid::Uuid;

/// A store of its own in a directory that goes away with it.
struct Home {
    dir: TempDir,
    store: Store,
}

impl Home {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&options(&dir)).await.expect("a new store opens");
        Self { dir, store }
    }

    /// A live agent with a workspace.
    async fn agent(&self, name: &str) -> Agent {
        let agent = Agent { workspace_id: Some(WorkspaceId(Uuid::now_v7())), ..agent(name) };
        self.store.agent_adopt(&agent).await.unwrap()
    }

    /// Changes the rows behind the store's back.
    async fn tamper(&self, sql: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.dir.path().join("fleet.db"));
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    async fn reopened(self) -> Self {
        self.store.close().await;
        let store = Store::open(&options(&self.dir)).await.unwrap();
        Self { store, ..self }
    }
}

fn options(dir: &TempDir) -> StoreOptions {
    StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") }
}

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + second, 123_456_000).unwrap()
}

/// An agent that was just asked for; every optional field is set once in these tests.
fn agent(name: &str) -> Agent {
    Agent {
        id: AgentId::fresh(),
        name: AgentName::parse(name).unwrap(),
        workspace_id: None,
        project: "setup".into(),
        role: "coder".into(),
        spec: "## Objective\nAdd a login — 🔑".into(),
        pull_request_url: Some("https://forge.example/pull/1".into()),
        directory: Some("/srv/shop".into()),
        created_by: Some("manager".into()),
        created_at: at(0),
        updated_at: at(0),
        deleted_at: None,
        sighting: Sighting {
            status: AgentStatus::Pending,
            previous_status: None,
            reason: "accepted".into(),
            attention: Attention::None,
            generation: 0,
            observed_at: None,
            revision: 0,
        },
    }
}

/// The agent as the store gives it back.
fn with_revision(agent: &Agent, revision: i64) -> Agent {
    Agent { sighting: Sighting { revision, ..agent.sighting.clone() }, ..agent.clone() }
}

fn operation(agent: &Agent, kind: OperationKind) -> Operation {
    Operation::accepted(agent.id, kind, "manager", at(1))
}

fn line(agent: &Agent, message: &str, source: TaskSource, second: i64) -> HistoryLine {
    HistoryLine { agent_id: agent.id, message: message.into(), source, generation: 1, created_at: at(second) }
}

/// A task of a manager.
fn given(agent: &Agent, message: &str, second: i64) -> Task {
    let entry = line(agent, message, TaskSource::Manager, second);
    Task::accepted(TaskId::fresh(), entry, TaskWork::fresh(TaskOrigin::Given))
}

fn report(agent: &Agent, message: &str, second: i64) -> Report {
    Report {
        id: Uuid::now_v7(),
        line: HistoryLine { generation: 3, ..line(agent, message, TaskSource::Agent, second) },
        state: AppState::Working,
        task_id: Some(TaskId(Uuid::from_u128(7))),
        uri: Some("https://forge.example/commit/1".into()),
        needs_answer: true,
    }
}

fn page(number: i64, size: i64) -> PageRequest {
    PageRequest::parse(number, size).unwrap()
}

/// What the store said it does not have.
fn missing<T: std::fmt::Debug>(result: Result<T, StoreError>) -> &'static str {
    match result {
        Err(StoreError::Missing(what)) => what,
        other => panic!("expected something missing, got {other:?}"),
    }
}
