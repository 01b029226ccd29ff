//! What a run has shown: violations with seed, round and evidence, kills of each kind, operations done.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use super::checks::{CHECKS, DOCTOR, Violation};
use super::database::Rows;
use super::faults::FaultCounts;
use super::ledger::Acknowledged;
use super::world::World;
use crate::harness::Program;

/// The end of the server's log that is shown with a violation.
const LOG_LINES: usize = 40;

#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) violations: Vec<Violation>,
    n_rounds: usize,
    slowest: Duration,
    kills: BTreeMap<&'static str, usize>,
    n_answered: usize,
    n_unanswered: usize,
    outcomes: BTreeMap<String, usize>,
    /// How operations and tasks ended, by state and reason.
    ends: BTreeMap<String, usize>,
}

impl Report {
    /// Counts a round and the time it took to come to rest.
    pub(super) fn round(&mut self, took: Duration, counts: &FaultCounts) {
        self.n_rounds += 1;
        self.slowest = self.slowest.max(took);
        for (kind, n) in &counts.kills {
            *self.kills.entry(kind).or_default() += n;
        }
    }

    /// Says what one round, named by its number and its seed, has shown.
    pub(super) fn findings(&mut self, world: &World, round: &str, found: Vec<Violation>) {
        print_line(&format!("chaos {round}: {} violations", found.len()));
        for Violation { invariant, evidence } in &found {
            print_line(&format!("  VIOLATION of {invariant}, {round}: {evidence}"));
        }
        if !found.is_empty() {
            keep(&world.program, round);
        }
        self.violations.extend(found);
    }

    /// Adds up what the clients of one data directory did, and what became of it.
    pub(super) fn world(&mut self, acknowledged: &Acknowledged, rows: &Rows) {
        self.n_answered += acknowledged.n_answered;
        self.n_unanswered += acknowledged.n_unanswered;
        for (outcome, n) in &acknowledged.outcomes {
            *self.outcomes.entry(outcome.clone()).or_default() += n;
        }
        for row in rows.operations.values() {
            *self
                .ends
                .entry(format!("{} {}: {}", row.what, row.state, without_names(&row.outcome)))
                .or_default() += 1;
        }
        for row in rows.tasks.values() {
            let outcome = if row.state == "done" { String::new() } else { without_names(&row.outcome) };
            *self.ends.entry(format!("task {}: {outcome}", row.state)).or_default() += 1;
        }
    }

    pub(super) fn print(&self) {
        let mut text = format!(
            "chaos: {} rounds, {} violations, slowest to settle {:?}\n  kills {:?}\n  calls answered {}, unanswered {}\n",
            self.n_rounds,
            self.violations.len(),
            self.slowest,
            self.kills,
            self.n_answered,
            self.n_unanswered
        );
        for invariant in CHECKS.map(|(invariant, _)| invariant).into_iter().chain([DOCTOR]) {
            let n = self.violations.iter().filter(|violation| violation.invariant == invariant).count();
            text.push_str(&format!("  {n:4} violations of {invariant}\n"));
        }
        for (what, n) in self.outcomes.iter().chain(&self.ends) {
            text.push_str(&format!("  {n:5} {what}\n"));
        }
        print_line(&text);
    }
}

/// Shows the end of the server's log. With `FLEET_CHAOS_KEEP` the whole directory is kept below the one named there.
pub(super) fn keep(program: &Program, round: &str) {
    let log = program.log();
    let lines: Vec<&str> = log.lines().collect();
    print_line(&lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"));
    let Some(kept) = std::env::var_os("FLEET_CHAOS_KEEP") else { return };
    let place = std::path::Path::new(&kept).join(round.replace(' ', "-"));
    let copied = Command::new("cp").arg("-a").arg(program.directory.path()).arg(&place).status();
    print_line(&format!("kept in {}: {copied:?}", place.display()));
}

/// Marks, ids and names differ from row to row; the reason does not.
fn without_names(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !word.contains("mark-"));
    words.collect::<Vec<_>>().join(" ").chars().take(160).collect()
}

/// Written ended the test runner, which keeps what a passing test prints to itself.
fn print_line(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("stderr takes it");
}
