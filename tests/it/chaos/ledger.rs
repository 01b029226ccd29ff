//! What the clients did and what was acknowledged to them, to compare with the record of the server.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;

/// Everything the clients of one data directory know.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Acknowledged>);

#[derive(Debug, Clone, Default)]
pub(super) struct Acknowledged {
    /// Acknowledged operations by id, with the call that each came from.
    pub(super) operations: BTreeMap<String, String>,
    /// Acknowledged tasks by id, with the mark that their engine run leaves.
    pub(super) tasks: BTreeMap<String, String>,
    pub(super) squads: BTreeMap<String, String>,
    /// How often each audit row must be there at least.
    pub(super) trail: BTreeMap<AuditKey, usize>,
    /// Secrets that came back in an answer.
    pub(super) leaks: Vec<String>,
    pub(super) n_answered: usize,
    pub(super) n_unanswered: usize,
    /// Answers by tool and outcome, for the report.
    pub(super) outcomes: BTreeMap<String, usize>,
}

/// One audited call, as the audit trail words it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AuditKey {
    pub(super) principal: String,
    pub(super) action: String,
    pub(super) target: Option<String>,
    /// allowed, failed or denied
    pub(super) outcome: String,
}

/// The answer of either surface to one tool call.
#[derive(Debug)]
pub(super) enum Answer {
    Result(Value),
    Refused { code: String, text: String },
}

impl Ledger {
    pub(super) fn note(&self, change: impl FnOnce(&mut Acknowledged)) {
        change(&mut self.0.lock().unwrap());
    }

    pub(super) fn now(&self) -> Acknowledged {
        self.0.lock().unwrap().clone()
    }
}

impl Acknowledged {
    /// Files what an answer acknowledges.
    pub(super) fn acknowledge(&mut self, call: &str, mark: Option<&str>, answer: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(id) = text(&answer["operation_id"]) {
            self.operations.insert(id, call.to_owned());
        }
        if let (Some(id), Some(mark)) = (text(&answer["task"]["id"]), mark) {
            self.tasks.insert(id, mark.to_owned());
        }
        if let Some(id) = text(&answer["squadId"]) {
            self.squads.insert(id, call.to_owned());
        }
    }

    pub(super) fn count(&mut self, tool: &str, outcome: &str) {
        *self.outcomes.entry(format!("{tool} {outcome}")).or_default() += 1;
    }
}
