//! Counts the usage of agents and runs from figures that workspaces report.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;

use super::Fleet;
use super::error::Error;
use super::snapshot::AgentState;
use crate::domain::id::AgentId;
use crate::domain::metadata::USAGE;
use crate::domain::run::Run;
use crate::domain::text::cut;
use crate::domain::usage::{Figures, Mark, OWN_RECORD, Spender, UsageTotal};
use crate::engine::{Usage, UsageRecord};
use crate::store::UsageReport;

/// Bounds the conversation name, which comes from a workspace.
const LONGEST_SOURCE: usize = 200;

/// A run, and the usage to be counted for it.
#[derive(Debug)]
pub(super) struct CountedRun<'a> {
    pub(super) run: &'a Run,
    pub(super) spender: Spender,
    /// The conversation of the figures; none if they are of this run alone.
    pub(super) conversation: Option<&'a str>,
    /// None if the run reported no usage.
    pub(super) reported: Option<Figures>,
}

/// The figures in an agent's metadata; none if they cannot be parsed.
pub(super) fn reported(values: &BTreeMap<String, String>, generation: i64) -> Option<Mark> {
    let record: UsageRecord = serde_json::from_str(values.get(USAGE)?).ok()?;
    let highest = Figures { unknown_runs: record.unknown_runs, ..figures_of(record.usage) };
    Some(Mark { generation, highest })
}

/// The report to count for these figures; none if they are already known.
pub(super) fn new_figures(state: &AgentState, reported: Option<Mark>) -> Option<UsageReport> {
    let mark = reported.filter(|_| reported != state.live.usage_reported)?;
    Some(UsageReport { agent: state.agent.id, source: OWN_RECORD.to_owned(), spender: Spender::Agent, mark })
}

/// The counter of a single run.
fn own_source(run: &Run) -> String {
    format!("run {}", run.id)
}

/// The counter of an engine's conversation.
fn conversation_source(id: &str) -> String {
    cut(&format!("conversation {id}"), LONGEST_SOURCE)
}

pub(super) fn figures_of(usage: Usage) -> Figures {
    Figures::reported(usage.input_tokens, usage.output_tokens, usage.cost_usd)
}

impl Fleet {
    /// Counts figures and returns the agents whose figures were rejected.
    pub(super) async fn usage_absorb(&self, reported: Vec<UsageReport>) -> Result<Vec<AgentId>, Error> {
        if reported.is_empty() {
            return Ok(Vec::new());
        }
        let counted = self.store().usage_count(&reported, Utc::now()).await?;
        for agent in &counted.rejected {
            tracing::debug!(agent.id = %agent, "implausible usage figures are not counted");
        }
        self.usage_show(&counted.changed);
        Ok(counted.rejected)
    }

    /// The usage of an agent's conversation so far.
    pub(super) async fn usage_of_conversation(&self, agent: AgentId, id: &str) -> Result<Figures, Error> {
        Ok(self.store().usage_counter(agent, &conversation_source(id)).await?)
    }

    /// Counts a run so far; safe to repeat. Implausible figures make the run's usage unknown.
    pub(super) async fn usage_of_run(&self, over: CountedRun<'_>) -> Result<(), Error> {
        let Some(highest) = over.reported else { return self.run_unknown(&over).await };
        let source = over.conversation.map_or_else(|| own_source(over.run), conversation_source);
        let mark = Mark { generation: 0, highest };
        let reported = UsageReport { agent: over.run.agent_id, source, spender: over.spender, mark };
        let rejected = self.usage_absorb(vec![reported]).await?;
        if rejected.is_empty() { Ok(()) } else { self.run_unknown(&over).await }
    }

    async fn run_unknown(&self, over: &CountedRun<'_>) -> Result<(), Error> {
        let (agent, source) = (over.run.agent_id, own_source(over.run));
        let noted = self.store().usage_unknown((agent, &source), over.spender, Utc::now()).await?;
        if let Some(total) = noted {
            self.usage_show(&[(agent, total)]);
        }
        Ok(())
    }

    fn usage_show(&self, changed: &[(AgentId, UsageTotal)]) {
        if changed.is_empty() {
            return;
        }
        self.board().update(|snapshot| {
            for (agent, total) in changed {
                let state = snapshot.agents.values_mut().find(|state| state.agent.id == *agent);
                if let Some(state) = state.map(Arc::make_mut) {
                    state.usage = state.usage.later(*total);
                }
            }
        });
    }
}
