//! Finds rows that violate an invariant: bounded queries over the newest rows, for `doctor`.

use chrono::{DateTime, Utc};
use sqlx::Row;
use uuid::Uuid;

use super::Store;
use super::db::DbRow;
use super::error::StoreError;
use super::row::micros;
use crate::domain::invariant::Invariant;

/// Rows changed after `settled` may be in the middle of a change; work without progress since `stale` is stuck.
#[derive(Debug, Clone, Copy)]
pub struct Ages {
    pub settled: DateTime<Utc>,
    pub stale: DateTime<Utc>,
}

/// One violation of an invariant. The query returns ids or names of violating rows; `$1` is the settled time, `$2`
/// the stale one. `COALESCE(id, id)` keeps the database from walking a whole index for its order.
struct Rule {
    what: &'static str,
    problem: &'static str,
    sql: &'static str,
}

impl Store {
    /// The violations of an invariant, in sentences; at most five of each kind.
    pub async fn contradictions(&self, invariant: Invariant, ages: Ages) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for rule in rules(invariant) {
            let query = sqlx::query(rule.sql).bind(micros(ages.settled)).bind(micros(ages.stale));
            for row in query.fetch_all(&self.read).await? {
                found.push(format!("{} {} {}", rule.what, named(&row)?, rule.problem));
            }
        }
        Ok(found)
    }
}

fn named(row: &DbRow) -> Result<String, sqlx::Error> {
    row.try_get::<Uuid, _>(0).map(|id| id.to_string()).or_else(|_| row.try_get::<String, _>(0))
}

fn rules(invariant: Invariant) -> &'static [Rule] {
    match invariant {
        Invariant::NothingLost => NOTHING_LOST,
        Invariant::NoDuplicates => NO_DUPLICATES,
        Invariant::NoOrphans => NO_ORPHANS,
        Invariant::NoZombieWork => NO_ZOMBIE_WORK,
        Invariant::LegalTransitions => LEGAL_TRANSITIONS,
        Invariant::Audited => AUDITED,
        Invariant::DeniedWithoutEffect => DENIED_WITHOUT_EFFECT,
        // Rows cannot show these: budgets are in files, secrets are bytes, and integrity has its own check.
        Invariant::WithinBudget | Invariant::NoSecrets | Invariant::Integrity => &[],
    }
}

const NOTHING_LOST: &[Rule] = &[
    // A create that failed at once is removed with its agent, and its second row says so.
    Rule {
        what: "operation",
        problem: "was accepted and is not recorded",
        sql: "SELECT a.operation_id FROM audit a WHERE a.operation_id IS NOT NULL AND a.outcome = 'allowed' \
              AND a.sequence > (SELECT max(sequence) FROM audit) - 10000 AND a.at < $1 \
              AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.id = a.operation_id) \
              AND NOT EXISTS (SELECT 1 FROM audit f WHERE f.operation_id = a.operation_id AND f.outcome = 'failed') \
              LIMIT 5",
    },
    Rule {
        what: "task",
        problem: "was accepted and is not being delivered",
        sql: "SELECT j.id FROM journal j WHERE j.ended_at IS NULL AND j.kind = 'task' AND j.created_at < $1 \
              AND NOT EXISTS (SELECT 1 FROM task_deliveries d WHERE d.task_id = j.id) LIMIT 5",
    },
    Rule {
        what: "task",
        problem: "waits for an agent that is idle",
        sql: "SELECT j.id FROM journal j JOIN task_deliveries d ON d.task_id = j.id \
              JOIN sightings s ON s.agent_id = j.agent_id WHERE j.ended_at IS NULL AND d.origin <> 'run' \
              AND d.parked_until IS NULL AND s.status = 'idle' AND s.attention = 'none' AND s.updated_at < $2 \
              AND (SELECT max(at) FROM task_moves m WHERE m.task_id = j.id) < $2 LIMIT 5",
    },
    Rule {
        what: "squad",
        problem: "is open though all its members have ended",
        sql: "SELECT s.id FROM squads s WHERE s.ended_at IS NULL AND s.created_at < $1 AND NOT EXISTS \
              (SELECT 1 FROM squad_members m WHERE m.squad_id = s.id AND (m.ended_at IS NULL OR m.ended_at >= $1)) \
              LIMIT 5",
    },
];

const NO_DUPLICATES: &[Rule] = &[
    Rule {
        what: "agent",
        problem: "was created twice",
        sql: "SELECT min(a.name) FROM operations o JOIN agents a ON a.id = o.agent_id WHERE o.kind = 'create' \
              AND o.sequence > (SELECT max(sequence) FROM operations) - 10000 AND o.created_at < $1 \
              GROUP BY COALESCE(o.agent_id, o.agent_id) HAVING count(*) > 1 LIMIT 5",
    },
    Rule {
        what: "agent",
        problem: "has two operations that run at once",
        sql: "SELECT min(a.name) FROM operations o JOIN agents a ON a.id = o.agent_id WHERE o.ended_at IS NULL \
              AND o.state = 'running' AND o.updated_at < $1 \
              GROUP BY COALESCE(o.agent_id, o.agent_id) HAVING count(*) > 1 LIMIT 5",
    },
    Rule {
        what: "agent",
        problem: "works on two tasks at once",
        sql: "SELECT min(a.name) FROM journal j JOIN task_deliveries d ON d.task_id = j.id JOIN agents a ON a.id = j.agent_id \
              WHERE j.ended_at IS NULL AND j.state IN ('delivering', 'working') AND d.origin <> 'run' \
              AND (SELECT max(at) FROM task_moves m WHERE m.task_id = j.id) < $1 \
              GROUP BY j.agent_id HAVING count(*) > 1 LIMIT 5",
    },
    Rule {
        what: "task",
        problem: "was delivered more often than delivery was attempted",
        sql: "SELECT COALESCE(m.task_id, m.task_id) FROM task_moves m JOIN task_deliveries d ON d.task_id = m.task_id \
              WHERE m.state = 'delivering' AND m.sequence > (SELECT max(sequence) FROM task_moves) - 20000 \
              GROUP BY COALESCE(m.task_id, m.task_id) HAVING count(*) > max(d.attempt) LIMIT 5",
    },
    Rule {
        what: "run",
        problem: "does the work of two squad members",
        sql: "SELECT m.run_id FROM squad_members m WHERE m.run_id IS NOT NULL \
              AND m.squad_id IN (SELECT id FROM squads ORDER BY created_at DESC LIMIT 1000) \
              GROUP BY m.run_id HAVING count(*) > 1 LIMIT 5",
    },
];

const NO_ORPHANS: &[Rule] = &[Rule {
    what: "run",
    problem: "is still running in the workspace of a deleted agent",
    sql: "SELECT r.id FROM runs r JOIN agents a ON a.id = r.agent_id WHERE NOT r.is_cleared AND r.ended_at IS NULL \
          AND a.deleted_at < $1 LIMIT 5",
}];

const NO_ZOMBIE_WORK: &[Rule] = &[
    // A stop parks the task of a runner; the task stays `working` until the next start resumes it.
    Rule {
        what: "task",
        problem: "is being worked on in a workspace that is stopped",
        sql: "SELECT j.id FROM journal j JOIN task_deliveries d ON d.task_id = j.id \
              JOIN sightings s ON s.agent_id = j.agent_id WHERE j.ended_at IS NULL \
              AND j.state = 'working' AND d.parked_until IS NULL AND s.updated_at < $1 AND (s.status = 'deleted' \
              OR (s.status = 'stopped' AND d.step <> 'unsent' \
              AND (d.channel <> 'runner' OR d.cancel_at IS NOT NULL))) LIMIT 5",
    },
    Rule {
        what: "run",
        problem: "is recorded as running in a workspace that is stopped",
        sql: "SELECT r.id FROM runs r JOIN sightings s ON s.agent_id = r.agent_id WHERE NOT r.is_cleared \
              AND r.ended_at IS NULL AND r.state = 'running' AND s.status IN ('stopped', 'deleted') \
              AND s.updated_at < $1 LIMIT 5",
    },
    Rule {
        what: "squad member",
        problem: "is recorded as running without a process",
        sql: "SELECT m.id FROM squad_members m WHERE m.ended_at IS NULL AND m.run_id IS NULL AND m.began_at < $1 \
              LIMIT 5",
    },
];

const LEGAL_TRANSITIONS: &[Rule] = &[
    Rule {
        what: "operation",
        problem: "has a state that contradicts its end",
        sql: "SELECT id FROM operations WHERE sequence > (SELECT max(sequence) FROM operations) - 10000 \
              AND (state IN ('done', 'failed', 'canceled')) <> (ended_at IS NOT NULL) LIMIT 5",
    },
    Rule {
        what: "task",
        problem: "has a state that contradicts its end",
        sql: "SELECT id FROM journal WHERE id IN (SELECT task_id FROM task_moves \
              WHERE sequence > (SELECT max(sequence) FROM task_moves) - 20000) \
              AND (state IN ('done', 'failed', 'canceled', 'timed_out')) <> (ended_at IS NOT NULL) LIMIT 5",
    },
    Rule {
        what: "task",
        problem: "changed its state after its end",
        sql: "SELECT DISTINCT COALESCE(m.task_id, m.task_id) FROM task_moves m \
              JOIN task_moves e ON e.task_id = m.task_id \
              AND e.sequence < m.sequence AND e.state IN ('done', 'failed', 'canceled', 'timed_out') \
              WHERE m.sequence > (SELECT max(sequence) FROM task_moves) - 20000 LIMIT 5",
    },
    Rule {
        what: "run",
        problem: "has a state that contradicts its end",
        sql: "SELECT id FROM runs WHERE id IN (SELECT id FROM runs ORDER BY created_at DESC LIMIT 10000) \
              AND (state IN ('accepted', 'running')) <> (ended_at IS NULL) LIMIT 5",
    },
    Rule {
        what: "squad",
        problem: "has ended before its members",
        sql: "SELECT DISTINCT s.id FROM squads s JOIN squad_members m ON m.squad_id = s.id \
              WHERE s.ended_at IS NOT NULL AND m.ended_at IS NULL AND s.id IN \
              (SELECT id FROM squads ORDER BY created_at DESC LIMIT 1000) LIMIT 5",
    },
    Rule {
        what: "agent",
        problem: "is deleted and has work that is open",
        sql: "SELECT DISTINCT a.name FROM agents a WHERE a.deleted_at < $1 AND (a.id IN \
              (SELECT agent_id FROM operations WHERE ended_at IS NULL) OR a.id IN \
              (SELECT agent_id FROM journal WHERE ended_at IS NULL AND kind = 'task')) LIMIT 5",
    },
    Rule {
        what: "agent",
        problem: "is deleted and shown as something else",
        sql: "SELECT a.name FROM agents a JOIN sightings s ON s.agent_id = a.id WHERE a.deleted_at < $1 \
              AND s.status <> 'deleted' LIMIT 5",
    },
    Rule {
        what: "agent",
        problem: "has a revision that was never assigned",
        sql: "SELECT a.name FROM sightings s JOIN agents a ON a.id = s.agent_id \
              WHERE s.revision > (SELECT value FROM fleet_revision) LIMIT 5",
    },
];

const AUDITED: &[Rule] = &[Rule {
    what: "operation",
    problem: "has no row in the audit trail",
    sql: "SELECT o.id FROM operations o WHERE o.sequence > (SELECT max(sequence) FROM operations) - 10000 \
          AND o.created_at < $1 AND o.principal NOT IN ('start_squad_members', 'cancel_agent_task') \
          AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.operation_id = o.id) LIMIT 5",
}];

const DENIED_WITHOUT_EFFECT: &[Rule] = &[Rule {
    what: "operation",
    problem: "was carried out for a call that was denied",
    sql: "SELECT a.operation_id FROM audit a WHERE a.operation_id IS NOT NULL AND a.outcome = 'denied' LIMIT 5",
}];
