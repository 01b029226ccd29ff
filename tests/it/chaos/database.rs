//! The store as SQLite shows it, read ended all code of the product.

use std::collections::BTreeMap;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions, Connection, Row};
use uuid::Uuid;

use super::ledger::AuditKey;
use super::world::World;

/// All rows of the store that the checks need, read at once.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) operations: BTreeMap<String, Record>,
    pub(super) tasks: BTreeMap<String, Record>,
    pub(super) squads: BTreeMap<String, Record>,
    /// By id; ended means deleted.
    pub(super) agents: BTreeMap<String, Record>,
    pub(super) workspaces: BTreeMap<String, String>,
    pub(super) rescued: Vec<String>,
    pub(super) trail: BTreeMap<AuditKey, usize>,
    pub(super) problems: Vec<String>,
}

/// One durable row: what it is, its state and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The name of the agent that it is about, and whether that one is deleted.
    pub(super) agent: String,
    /// The kind of an operation, the text of a task.
    pub(super) what: String,
    pub(super) state: String,
    /// Failure or outcome.
    pub(super) outcome: String,
    pub(super) ended_at: Option<i64>,
    pub(super) created_at: i64,
}

const OPERATIONS: &str = "SELECT o.id, iif(a.deleted_at IS NULL, a.name, a.name || ' (deleted)'), o.kind, o.state, coalesce(o.failure_code || ': ' || o.failure_message, ''), \
    o.ended_at, o.created_at FROM operations o JOIN agents a ON a.id = o.agent_id";
const TASKS: &str = "SELECT j.id, iif(a.deleted_at IS NULL, a.name, a.name || ' (deleted)'), j.message, j.state, coalesce(j.outcome, ''), j.ended_at, j.created_at \
    FROM journal j JOIN agents a ON a.id = j.agent_id WHERE j.kind = 'task'";
const SQUADS: &str = "SELECT id, '', '', CASE WHEN ended_at IS NULL THEN 'open' ELSE 'ended' END, '', ended_at, created_at \
    FROM squads";
const AGENTS: &str = "SELECT id, name, project, CASE WHEN deleted_at IS NULL THEN 'live' ELSE 'deleted' END, '', \
    deleted_at, created_at FROM agents";
const WORKSPACES: &str =
    "SELECT name, workspace_id FROM agents WHERE deleted_at IS NULL AND workspace_id IS NOT NULL";
const TRAIL: &str =
    "SELECT principal, action, lower(target), outcome, count(*) FROM audit GROUP BY 1, 2, 3, 4";

pub(super) async fn rows(world: &World) -> Rows {
    let path = world.program.data_dir().join("fleet.db");
    let mut store = SqliteConnectOptions::new().filename(path).read_only(true).connect().await.unwrap();
    let mut rows = Rows {
        operations: records(&mut store, OPERATIONS).await,
        tasks: records(&mut store, TASKS).await,
        squads: records(&mut store, SQUADS).await,
        agents: records(&mut store, AGENTS).await,
        ..Rows::default()
    };
    for row in all(&mut store, WORKSPACES).await {
        rows.workspaces.insert(row.get(0), id(&row, 1));
    }
    let rescued = all(&mut store, "SELECT file FROM rescues WHERE file IS NOT NULL").await;
    rows.rescued = rescued.iter().map(|row| row.get(0)).collect();
    for row in all(&mut store, TRAIL).await {
        let audit_key =
            AuditKey { principal: row.get(0), action: row.get(1), target: row.get(2), outcome: row.get(3) };
        rows.trail.insert(audit_key, usize::try_from(row.get::<i64, _>(4)).unwrap());
    }
    let integrity = all(&mut store, "PRAGMA integrity_check").await;
    let integrity = integrity.iter().map(|row| row.get::<String, _>(0)).filter(|line| line != "ok");
    rows.problems.extend(integrity);
    let dangling = all(&mut store, "PRAGMA foreign_key_check").await;
    rows.problems.extend(dangling.iter().map(|row| format!("a dangling key in {}", row.get::<String, _>(0))));
    // A connection that is only dropped is closed later, perhaps beside the next server.
    store.close().await.unwrap();
    rows
}

async fn records(store: &mut SqliteConnection, query: &'static str) -> BTreeMap<String, Record> {
    let record = |row: &SqliteRow| Record {
        agent: row.get(1),
        what: row.get(2),
        state: row.get(3),
        outcome: row.get(4),
        ended_at: row.get(5),
        created_at: row.get(6),
    };
    all(store, query).await.iter().map(|row| (id(row, 0), record(row))).collect()
}

async fn all(store: &mut SqliteConnection, query: &'static str) -> Vec<SqliteRow> {
    sqlx::query(query).fetch_all(store).await.unwrap()
}

fn id(row: &SqliteRow, column: usize) -> String {
    Uuid::from_slice(row.get(column)).unwrap().to_string()
}
