//! Invariants of durable rows: kept, ended, run once, failed for a reason, never reopened.

use std::collections::BTreeMap;

use super::Context;
use crate::chaos::database::{Record, Rows};

/// What a start says whose runner was killed.
const RUNNER_KILLED: &str = "the agent's process ended before it was ready";

/// What makes the demo engine fail or run out of time.
const TOLD_TO_FAIL: [&str; 3] = ["fail mark-", "\nexit 3", "\nhang"];
/// How a task ends whose engine or runner was killed, or whose workspace was stopped or deleted under it.
const CUT_SHORT: [&str; 8] = [
    "signal: 9 (SIGKILL)",
    "ended by signal 9",
    "the agent's runner ended during the task",
    "it was terminated from outside, possibly by a stop of its workspace",
    "its workspace was stopped",
    "its workspace was deleted",
    "its workspace failed",
    "is not running (",
];

/// Rows that were seen at their end before.
#[derive(Debug, Default)]
pub(crate) struct EndedRows(BTreeMap<String, Record>);

impl EndedRows {
    /// Remembers what has ended by now; what was remembered stays as it was.
    pub(crate) fn remember(&mut self, rows: &Rows) {
        for (id, record) in everything(rows).filter(|(_, record)| record.ended_at.is_some()) {
            self.0.entry(id.clone()).or_insert_with(|| record.clone());
        }
    }
}

fn everything(rows: &Rows) -> impl Iterator<Item = (&String, &Record)> {
    rows.operations.iter().chain(&rows.tasks).chain(&rows.squads).chain(&rows.agents)
}

pub(super) fn operations(context: &Context<'_>) -> Vec<String> {
    let rows = &context.facts.rows.operations;
    let lost = context.acknowledged.operations.iter().filter(|(id, _)| !rows.contains_key(*id));
    let lost = lost.map(|(id, call)| format!("lost: operation {id} of {call}"));
    let open = rows.iter().filter(|(_, row)| row.ended_at.is_none());
    let status = |row: &Record| format!("{:?}", context.facts.status_of(&row.agent));
    let open = open.map(|(id, row)| format!("stuck: operation {id} {row:?}, agent {}", status(row)));
    lost.chain(open).collect()
}

pub(super) fn tasks(context: &Context<'_>) -> Vec<String> {
    let (tasks, squads) = (&context.facts.rows.tasks, &context.facts.rows.squads);
    let lost = context.acknowledged.tasks.iter().filter(|(id, _)| !tasks.contains_key(*id));
    let lost = lost.map(|(id, mark)| format!("lost: task {id} with mark {mark}"));
    let lost_squads = context.acknowledged.squads.iter().filter(|(id, _)| !squads.contains_key(*id));
    let lost_squads = lost_squads.map(|(id, call)| format!("lost: squad {id} of {call}"));
    let open = squads.iter().filter(|(_, row)| row.ended_at.is_none());
    let open = open.map(|(id, row)| format!("stuck: squad {id} {row:?}"));
    let waiting = tasks.iter().filter_map(|(id, row)| {
        let agent = context.facts.status_of(&row.agent);
        let is_fine = row.ended_at.is_some() || may_wait(&row.state, agent);
        (!is_fine).then(|| format!("stuck: task {id} {row:?}, agent {agent:?}"))
    });
    lost.chain(lost_squads).chain(open).chain(waiting).collect()
}

/// A task waits for as long as its agent is stopped, or has failed in a way that calls for attention. What a stop cut
/// short is parked, and whether a message has arrived the next start tells.
pub(crate) fn may_wait(state: &str, agent: Option<(&str, &str)>) -> bool {
    match (state, agent) {
        ("queued" | "delivering" | "working", Some(("stopped" | "canceled", _))) => true,
        ("queued" | "delivering", Some(("failed", attention))) => attention != "none",
        _ => false,
    }
}

/// The engine itself wrote each of its runs down. A task that is done has one, no task has more.
pub(super) fn runs(context: &Context<'_>) -> Vec<String> {
    let mut n_runs: BTreeMap<String, usize> = BTreeMap::new();
    for mark in context.world.marks() {
        *n_runs.entry(mark).or_default() += 1;
    }
    let doubled = n_runs.iter().filter(|(_, n)| **n > 1);
    let doubled = doubled.map(|(mark, n)| format!("doubled: {n} runs of mark {mark}"));
    let done = context.facts.rows.tasks.iter().filter(|(_, row)| row.state == "done");
    let never = done.filter(|(_, row)| mark(&row.what).is_some_and(|mark| !n_runs.contains_key(mark)));
    doubled.chain(never.map(|(id, row)| format!("done without a run: task {id} {row:?}"))).collect()
}

fn mark(text: &str) -> Option<&str> {
    let rest = text.split_once("mark-")?.1;
    Some(rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').next().unwrap_or(rest))
}

pub(super) fn failures(context: &Context<'_>) -> Vec<String> {
    let failed = context.facts.rows.operations.iter().filter(|(_, row)| row.state == "failed");
    let is_explained =
        |row: &Record| context.world.has_killed_runners() && row.outcome.contains(RUNNER_KILLED);
    let unexplained = failed.filter(|(_, row)| !is_explained(row));
    let unexplained = unexplained.map(|(id, row)| format!("failed: operation {id} {row:?}"));
    let tasks = context.facts.rows.tasks.iter().filter(|(_, row)| row.state == "failed");
    let tasks = tasks.filter(|(_, row)| !may_fail(row));
    unexplained.chain(tasks.map(|(id, row)| format!("failed: task {id} {row:?}"))).collect()
}

/// A task fails because it was told to, or because what it ran in was taken away: never because the server was killed.
fn may_fail(row: &Record) -> bool {
    let is_told_to = TOLD_TO_FAIL.iter().any(|words| row.what.contains(words));
    is_told_to || CUT_SHORT.iter().any(|words| row.outcome.contains(words))
}

pub(super) fn reopened(context: &Context<'_>) -> Vec<String> {
    let now: BTreeMap<&String, &Record> = everything(&context.facts.rows).collect();
    let changed = context.ended.0.iter().filter_map(|(id, then)| match now.get(id) {
        Some(now) if now.state == then.state && now.ended_at == then.ended_at => None,
        found => Some(format!("{id} was {then:?} and is {found:?}")),
    });
    changed.collect()
}
