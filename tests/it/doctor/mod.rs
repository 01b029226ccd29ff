//! The doctor's check of each invariant: it holds on a healthy fleet, and each one can fail.

mod machine;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use fleet_mcp::app::doctor::{HostInspection, Inspection};
use fleet_mcp::app::tokens::CreateToken;
use fleet_mcp::app::{Fleet, FleetOptions};
use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::budget::Budget;
use fleet_mcp::domain::hosting::HostFindings;
use fleet_mcp::domain::invariant::Invariant;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::role::RoleKind;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use crate::harness::{CoderStub, Pace, RunningFleet, client, eventually, fleet_options, operator, stub};

/// Longer ago than any change may take.
const AGE_EVERYTHING: &str = "UPDATE operations SET created_at = created_at - 3600000000; \
     UPDATE audit SET at = at - 3600000000";

struct Patient {
    coder: CoderStub,
    running: RunningFleet,
}

impl Patient {
    /// A fleet with one agent that rests.
    async fn new() -> Self {
        Self::with(fleet_options()).await
    }

    async fn with(options: FleetOptions) -> Self {
        let coder = stub(Pace::Instant).await;
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let running = start(&coder, directory, options).await;
        running.create("heron").await.unwrap();
        running.becomes("heron", AgentStatus::Idle).await;
        // An agent may rest before its create has ended.
        eventually("the create has ended", async || {
            running.store.operations_open().await.unwrap().is_empty()
                && running.fleet.fleet_status(&operator()).await.unwrap().slots.used == 0
        })
        .await;
        Self { coder, running }
    }

    /// Changes the database behind the server's back.
    async fn edit(&self, sql: &'static str) {
        execute(&self.running.directory, sql).await;
    }

    /// Changes the database while no server runs, and starts one again.
    async fn edit_stopped(self, sql: &'static str, options: FleetOptions) -> Self {
        let directory = self.running.stop().await;
        execute(&directory, sql).await;
        Self { running: start(&self.coder, directory, options).await, coder: self.coder }
    }

    /// The invariants that do not hold, each with its finding.
    async fn broken(&self) -> Vec<(String, String)> {
        let id =
            self.running.store.operations_open().await.unwrap().first().map(|known| known.id.to_string());
        let checks = self.running.fleet.doctor(&operator()).await.unwrap();
        let invariants = checks.into_iter().filter(|check| check.name.starts_with("invariant."));
        let broken = invariants.filter(|check| check.remedy.is_some());
        let settled = |text: String| text.replace(&id.clone().unwrap_or("no id".to_owned()), "[OPEN]");
        broken.map(|check| (check.name.to_owned(), settled(hidden(&check.finding)))).collect()
    }
}

async fn start(coder: &CoderStub, directory: Arc<TempDir>, options: FleetOptions) -> RunningFleet {
    let client = client(coder.url(), &coder.token());
    RunningFleet::start_with(directory, client, options).await.seen().await
}

async fn connected(directory: &TempDir) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(directory.path().join("fleet.db"));
    options.foreign_keys(false).connect().await.unwrap()
}

async fn execute(directory: &TempDir, sql: &'static str) {
    let mut connection = connected(directory).await;
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Ids differ from run to run.
fn hidden(finding: &str) -> String {
    let is_id = |word: &str| word.parse::<uuid::Uuid>().is_ok();
    let words = finding.split(' ').map(|word| if is_id(word) { "[ID]" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn only(invariant: Invariant, finding: &str) -> Vec<(String, String)> {
    vec![(invariant.name().to_owned(), finding.to_owned())]
}

#[tokio::test]
async fn every_invariant_has_a_check_and_holds_on_a_healthy_fleet() {
    let patient = Patient::new().await;
    patient.edit(AGE_EVERYTHING).await;
    let checks = patient.running.fleet.doctor(&operator()).await.unwrap();
    let found: Vec<(&str, String, Option<String>)> = checks
        .into_iter()
        .filter(|check| check.name.starts_with("invariant."))
        .map(|check| (check.name, check.finding, check.remedy))
        .collect();
    let expected = Invariant::ALL.map(|known| (known.name(), known.statement().to_owned(), None));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_operation_that_was_accepted_and_is_gone_is_found() {
    let patient = Patient::new().await;
    patient.edit("UPDATE audit SET at = at - 3600000000; DELETE FROM operations").await;
    let expected = only(Invariant::NothingLost, "operation [ID] was accepted and is not recorded");
    assert_eq!(patient.broken().await, expected);
}

#[tokio::test]
async fn an_operation_that_stands_still_is_found() {
    let patient = Patient::new().await;
    patient
        .edit(
            "INSERT INTO operations (id, agent_id, kind, state, step, principal, created_at, updated_at) \
             SELECT randomblob(16), agent_id, 'stop', 'pending', 'accepted', principal, \
             (SELECT max(updated_at) FROM operations), 0 FROM operations",
        )
        .await;
    let finding = "operation [ID] (stop) has made no progress since 1970-01-01T00:00:00Z";
    assert_eq!(patient.broken().await, only(Invariant::NothingLost, finding));
}

#[tokio::test]
async fn an_agent_that_was_created_twice_is_found() {
    let patient = Patient::new().await;
    patient.edit(AGE_EVERYTHING).await;
    patient
        .edit(
            "INSERT INTO operations (id, agent_id, kind, state, step, principal, created_at, updated_at, ended_at) \
             SELECT randomblob(16), agent_id, kind, state, step, 'cancel_agent_task', created_at, updated_at, ended_at \
             FROM operations",
        )
        .await;
    assert_eq!(patient.broken().await, only(Invariant::NoDuplicates, "agent heron was created twice"));
}

#[tokio::test]
async fn a_task_that_was_delivered_twice_is_found() {
    let patient = Patient::new().await;
    patient
        .edit(
            "INSERT INTO task_moves (task_id, agent_id, state, reason, generation, at) \
             SELECT task_id, agent_id, 'delivering', 'again', generation, at FROM task_moves WHERE state = 'queued' \
             UNION ALL SELECT task_id, agent_id, 'delivering', 'again', generation, at FROM task_moves \
             WHERE state = 'queued'; DELETE FROM task_moves WHERE state NOT IN ('queued', 'delivering')",
        )
        .await;
    let finding = "task [ID] was delivered more often than delivery was attempted";
    assert_eq!(patient.broken().await, only(Invariant::NoDuplicates, finding));
}

#[tokio::test]
async fn a_workspace_whose_agent_is_recorded_as_deleted_is_found() {
    let deleted = "UPDATE agents SET deleted_at = created_at - 3600000000; \
                   UPDATE sightings SET status = 'deleted'; UPDATE journal SET ended_at = created_at, state = 'done'";
    let patient = Patient::new().await.edit_stopped(deleted, fleet_options()).await;
    let finding = "workspace 'heron' still exists, but its agent is deleted";
    assert_eq!(patient.broken().await, only(Invariant::NoOrphans, finding));
}

#[tokio::test]
async fn a_task_at_work_in_a_stopped_workspace_is_found() {
    let patient = Patient::new().await;
    patient
        .edit(
            "UPDATE journal SET state = 'working', ended_at = NULL; \
             UPDATE task_deliveries SET step = 'taken', channel = 'agent_api', at = 0; \
             UPDATE sightings SET status = 'stopped', updated_at = 0",
        )
        .await;
    let finding = "task [ID] is being worked on in a workspace that is stopped";
    assert_eq!(patient.broken().await, only(Invariant::NoZombieWork, finding));
    patient.edit("UPDATE task_deliveries SET channel = 'runner'").await;
    assert_eq!(patient.broken().await, Vec::new(), "our runner parks its task with the stop");
}

#[tokio::test]
async fn an_operation_whose_state_contradicts_its_end_is_found() {
    let patient = Patient::new().await;
    patient.edit("UPDATE operations SET ended_at = NULL").await;
    let finding = "operation [ID] has a state that contradicts its end";
    assert_eq!(patient.broken().await, only(Invariant::LegalTransitions, finding));
}

#[tokio::test]
async fn a_task_that_moved_on_after_its_end_is_found() {
    let patient = Patient::new().await;
    patient
        .edit(
            "DELETE FROM task_moves WHERE state <> 'queued'; \
             INSERT INTO task_moves (task_id, agent_id, state, reason, generation, at) \
             SELECT task_id, agent_id, 'done', '', generation, at FROM task_moves; \
             INSERT INTO task_moves (task_id, agent_id, state, reason, generation, at) \
             SELECT task_id, agent_id, 'working', '', generation, at FROM task_moves WHERE state = 'done'",
        )
        .await;
    assert_eq!(
        patient.broken().await,
        only(Invariant::LegalTransitions, "task [ID] changed its state after its end")
    );
}

#[tokio::test]
async fn an_operation_without_its_row_in_the_trail_is_found_and_the_next_start_writes_the_row() {
    let patient = Patient::new().await;
    patient.edit("UPDATE operations SET created_at = created_at - 3600000000; DELETE FROM audit").await;
    let finding = "operation [ID] has no row in the audit trail";
    assert_eq!(patient.broken().await, only(Invariant::Audited, finding));

    let patient = patient.edit_stopped("", fleet_options()).await;
    assert_eq!(patient.broken().await, []);
    let trail =
        patient.running.fleet.audit_list(&operator(), PageRequest::parse(1, 10).unwrap()).await.unwrap();
    let rows: Vec<_> =
        trail.items.iter().map(|row| (&*row.surface, &*row.action, row.target.as_deref())).collect();
    assert_eq!(rows, [("restart", "create_agent", Some("heron"))]);
}

#[tokio::test]
async fn an_agent_that_spent_more_than_its_budget_is_found() {
    let bounded =
        || FleetOptions { budget: Budget { max_cost: None, max_tokens: Some(100) }, ..fleet_options() };
    let spent = "INSERT INTO usage_days (agent_id, day, spender, input_tokens, output_tokens, unknown_runs) \
                 SELECT id, 1, 'agent', 100, 1, 0 FROM agents UNION ALL \
                 SELECT id, 1, 'member', 5000, 1, 0 FROM agents";
    let patient = Patient::with(bounded()).await.edit_stopped(spent, bounded()).await;
    let finding = "agent 'heron' has used 101 of 100 tokens";
    assert_eq!(patient.broken().await, only(Invariant::WithinBudget, finding));
}

#[tokio::test]
async fn a_token_in_the_database_is_found_until_it_is_revoked_and_never_told() {
    let patient = Patient::new().await;
    let minted = token(&patient.running.fleet).await;
    let mut connection = connected(&patient.running.directory).await;
    sqlx::query("INSERT INTO metadata (agent_id, key, value, changed_at) SELECT id, 'fleet_mcp_note', $1, 0 FROM agents")
        .bind(format!("my token is {}", minted.reveal()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let broken = patient.broken().await;
    let names: Vec<&str> = broken.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [Invariant::NoSecrets.name()]);
    let file = patient.running.directory.path().join("fleet.db-wal");
    let expected = format!("{} contains token [ID] of 'leaky'", file.canonicalize().unwrap().display());
    assert!(broken[0].1.contains(&expected), "{broken:?}");
    assert!(!broken[0].1.contains(&minted.reveal()));

    let id = minted.info.token.id.to_string();
    patient.running.fleet.token_revoke(&operator(), &id).await.unwrap();
    assert_eq!(patient.broken().await, []);
}

#[tokio::test]
async fn coders_token_in_the_log_is_found() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let inspection = Inspection { host: None, logs: vec![log.path().to_owned()] };
    let patient = Patient::with(FleetOptions { inspection, ..fleet_options() }).await;
    assert_eq!(patient.broken().await, []);
    std::fs::write(log.path(), format!("GET / {} 200", patient.coder.token())).unwrap();
    let finding = format!("{} contains the Coder token", log.path().display());
    assert_eq!(patient.broken().await, only(Invariant::NoSecrets, &finding));
}

#[tokio::test]
async fn a_database_that_is_not_whole_is_found() {
    let patient = Patient::new().await;
    patient.edit("UPDATE journal_days SET entries = entries + 1").await;
    let broken = patient.broken().await;
    let names: Vec<&str> = broken.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [Invariant::Integrity.name()]);
}

#[tokio::test]
async fn an_operation_of_a_call_that_was_denied_is_found() {
    let patient = Patient::new().await;
    patient
        .edit(
            "INSERT INTO audit (at, principal_kind, principal, surface, action, outcome, operation_id) \
             SELECT at, 'coding', 'otter', surface, action, 'denied', operation_id FROM audit",
        )
        .await;
    let finding = "operation [ID] was carried out for a call that was denied";
    assert_eq!(patient.broken().await, only(Invariant::DeniedWithoutEffect, finding));
}

/// What a machine shows is told as it is.
#[derive(Debug)]
struct Shown(HostFindings);

impl HostInspection for Shown {
    fn inspect(&self) -> Result<HostFindings, String> {
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn findings_of_the_machine_break_the_invariants_they_contradict() {
    let findings = HostFindings {
        leftovers: vec!["a directory".to_owned()],
        strays: (1..=4).map(|number| format!("stray {number}")).collect(),
        lost: vec!["no process".to_owned()],
    };
    let inspection = Inspection { host: Some(Arc::new(Shown(findings))), logs: Vec::new() };
    let patient = Patient::with(FleetOptions { inspection, ..fleet_options() }).await;
    let expected = [
        only(Invariant::NoOrphans, "a directory"),
        only(Invariant::NoZombieWork, "stray 1; stray 2; stray 3; and 2 more"),
    ];
    assert_eq!(patient.broken().await, expected.concat());
}

#[tokio::test]
async fn nothing_waits_for_a_coder_that_is_away() {
    let Patient { coder, running } = Patient::new().await;
    drop(coder);
    crate::harness::eventually("Coder is missed", async || running.fleet.health().now().error.is_some())
        .await;
    let looked =
        tokio::time::timeout(std::time::Duration::from_secs(8), running.fleet.doctor(&operator())).await;
    let checks = looked.expect("the doctor answers").unwrap();
    let ill: Vec<&str> =
        checks.iter().filter(|check| check.remedy.is_some()).map(|check| check.name).collect();
    assert_eq!(ill, ["coder"]);
}

async fn token(fleet: &Fleet) -> fleet_mcp::app::tokens::MintedToken {
    let no_end: Option<DateTime<Utc>> = None;
    let request = CreateToken {
        kind: Some(RoleKind::Manager),
        name: Some("leaky".to_owned()),
        role: None,
        agent: None,
        projects: AllowedProjects::All,
        expires_at: no_end,
    };
    fleet.token_create(&operator(), request).await.unwrap()
}
