//! The twelve invariants, each one function from the facts to the evidence against it.

mod rows;
mod site;
mod trail;

pub(super) use rows::{EndedRows, may_wait};
pub(super) use site::statuses;

use super::facts::Facts;
use super::ledger::Acknowledged;
use super::world::World;

/// One invariant that does not hold, and how that was seen.
#[derive(Debug, Clone)]
pub(super) struct Violation {
    pub(super) invariant: &'static str,
    pub(super) evidence: String,
}

/// What every check may look at.
pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) facts: &'a Facts,
    pub(super) acknowledged: &'a Acknowledged,
    pub(super) ended: &'a EndedRows,
}

/// Beside the twelve: `doctor` must not find fault either.
pub(super) const DOCTOR: &str = "doctor finds nothing";

pub(super) const TASKS: &str = "2 tasks are kept and end";
/// A clean stop that is none is counted here.
pub(super) const UNCLEAN: &str = "5 no orphan process";
pub(super) const DIRECTORIES: &str = "6 no orphan directory";
pub(super) const STATUS: &str = "8 status agrees with workspace and processes";

type Check = fn(&Context<'_>) -> Vec<String>;

pub(super) const CHECKS: [(&str, Check); 12] = [
    ("1 operations are kept and end", rows::operations),
    (TASKS, rows::tasks),
    ("3 no task runs twice", rows::runs),
    ("4 one workspace per agent", site::one_workspace),
    (UNCLEAN, site::processes),
    (DIRECTORIES, site::directories),
    ("7 no failure by a killed server", rows::failures),
    (STATUS, |context| site::statuses(context.facts)),
    ("9 ended rows stay ended", rows::reopened),
    ("10 audit rows", trail::audit),
    ("11 no secret in logs, database, arguments", trail::secrets),
    ("12 database whole, slots free", trail::store),
];

pub(super) fn violations(context: &Context<'_>) -> Vec<Violation> {
    let of = |(invariant, check): (&'static str, Check)| {
        check(context).into_iter().map(move |evidence| Violation { invariant, evidence })
    };
    CHECKS.into_iter().flat_map(of).collect()
}
