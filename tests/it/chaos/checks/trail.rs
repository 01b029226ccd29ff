//! Invariants of the whole directory: the audit trail, secrets, the database file, the slots.

use std::process::Command;

use serde_json::json;

use super::Context;

/// A row for each call that was answered. Calls whose answer was lost may have left more.
pub(super) fn audit(context: &Context<'_>) -> Vec<String> {
    let short = context.acknowledged.trail.iter().filter_map(|(audit_key, n_answered)| {
        let n_rows = context.facts.rows.trail.get(audit_key).copied().unwrap_or_default();
        (n_rows < *n_answered)
            .then(|| format!("{n_rows} rows for {n_answered} answered calls: {audit_key:?}"))
    });
    short.collect()
}

pub(super) fn secrets(context: &Context<'_>) -> Vec<String> {
    let data = context.world.program.data_dir();
    let mut secrets = context.world.secrets();
    secrets.extend(context.facts.tokens.iter().filter(|token| !token.is_empty()).cloned());
    let mut sinks = context.facts.agent_logs.clone();
    sinks.push(("the server's log".to_owned(), context.world.program.log()));
    for name in ["fleet.db", "fleet.db-wal"] {
        // Read by another process: SQLite's locks of this one would go with the descriptor.
        let read = Command::new("cat").arg(data.join(name)).output().unwrap();
        sinks.push((name.to_owned(), String::from_utf8_lossy(&read.stdout).into_owned()));
    }
    for process in &context.facts.processes {
        sinks.push((format!("the arguments of process {}", process.pid), process.arguments.clone()));
    }
    // Which secret it is, is acknowledged by its place in the list.
    let found = sinks.iter().flat_map(|(sink, text)| {
        let held = secrets.iter().enumerate().filter(|(_, secret)| text.contains(secret.as_str()));
        held.map(move |(index, _)| format!("secret {index} in {sink}"))
    });
    context.acknowledged.leaks.iter().cloned().chain(found).collect()
}

pub(super) fn store(context: &Context<'_>) -> Vec<String> {
    let mut found = context.facts.rows.problems.clone();
    let idle = json!({ "used": 0, "free": 3, "queued": 0 });
    if context.facts.capacity != idle {
        found.push(format!("slots are held at rest: {}", context.facts.capacity));
    }
    found
}
