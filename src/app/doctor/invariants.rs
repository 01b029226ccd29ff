//! One bounded check per invariant, without a request to Coder.

use chrono::{DateTime, TimeDelta, Utc};

use super::secrets;
use super::{Check, Fleet};
use crate::app::error::Error;
use crate::domain::hosting::HostFindings;
use crate::domain::invariant::Invariant;
use crate::domain::operation::{Operation, OperationState};
use crate::store::Ages;

/// The fleet converges within this time; a younger contradiction may be a change in progress.
const SETTLING: TimeDelta = TimeDelta::seconds(60);
/// Further findings are only counted.
const SHOWN: usize = 3;

/// Contradictions to an invariant, in sentences.
type Problems = Result<Vec<String>, String>;

impl Fleet {
    pub(super) async fn check_invariants(&self) -> Vec<Check> {
        let host = self.options().inspection.run().await;
        let mut checks = Vec::with_capacity(Invariant::ALL.len());
        for invariant in Invariant::ALL {
            checks.push(checked(invariant, self.problems(invariant, &host).await));
        }
        checks
    }

    async fn problems(&self, invariant: Invariant, host: &Result<HostFindings, String>) -> Problems {
        let ages = self.ages(Utc::now());
        let mut problems = self.store().contradictions(invariant, ages).await.map_err(describe)?;
        match invariant {
            Invariant::NothingLost => problems.extend(self.stalled_operations(ages.stale).await?),
            Invariant::NoOrphans => {
                problems.extend(host.as_ref().map_err(Clone::clone)?.leftovers.iter().cloned());
                problems.extend(self.workspaces_of_deleted(ages.settled));
            }
            Invariant::NoZombieWork => {
                let host = host.as_ref().map_err(Clone::clone)?;
                problems.extend(host.strays.iter().chain(&host.lost).cloned());
            }
            Invariant::WithinBudget => problems.extend(self.overspent()),
            Invariant::NoSecrets => problems.extend(self.exposed_secrets().await?),
            Invariant::Integrity => problems.extend(self.store().integrity().await.map_err(describe)?),
            Invariant::NoDuplicates | Invariant::LegalTransitions => {}
            Invariant::Audited | Invariant::DeniedWithoutEffect => {}
        }
        Ok(problems)
    }

    /// The longest step of an operation is a build and the stop before it.
    fn ages(&self, now: DateTime<Utc>) -> Ages {
        let build = TimeDelta::from_std(self.options().build_timeout).unwrap_or(TimeDelta::MAX);
        let settled = now - SETTLING;
        let earlier = |at: DateTime<Utc>| at.checked_sub_signed(build);
        Ages { settled, stale: earlier(settled).and_then(earlier).unwrap_or(settled) }
    }

    /// Operations that wait for Coder, for a slot or for an earlier operation are not overdue.
    async fn stalled_operations(&self, stale: DateTime<Utc>) -> Problems {
        if !self.health().now().is_reachable() {
            return Ok(Vec::new());
        }
        let has_queue = self.0.slots.in_use().queued > 0;
        let mut open = self.store().operations_open().await.map_err(describe)?;
        let mut seen = std::collections::HashSet::new();
        open.retain(|operation| seen.insert(operation.agent_id()));
        let stands_still = |operation: &&Operation| {
            let waits = operation.state() == OperationState::Pending && has_queue;
            operation.updated_at < stale && !waits
        };
        let say = |operation: &Operation| {
            let Operation { id, kind, updated_at, .. } = operation;
            format!("operation {id} ({kind}) has made no progress since {}", updated_at.format("%FT%TZ"))
        };
        Ok(open.iter().filter(stands_still).map(say).collect())
    }

    /// Workspaces of the last poll whose agent is recorded as deleted.
    fn workspaces_of_deleted(&self, settled: DateTime<Utc>) -> Vec<String> {
        let snapshot = self.board().now();
        let old = snapshot.orphans.iter().filter(|orphan| orphan.deleted_at < settled);
        old.map(|orphan| format!("workspace '{}' still exists, but its agent is deleted", orphan.workspace))
            .collect()
    }

    fn overspent(&self) -> Vec<String> {
        let snapshot = self.board().now();
        let say = |state: &std::sync::Arc<_>| self.budget_excess(state);
        snapshot.agents.values().filter_map(say).collect()
    }

    /// Only valid tokens count as exposed.
    async fn exposed_secrets(&self) -> Problems {
        let (store, coder) = (self.store().clone(), self.coder().clone());
        let logs = self.options().inspection.logs.clone();
        let search = move || secrets::search(store.raw_files()?, &logs, &coder);
        let searched = tokio::task::spawn_blocking(search).await;
        let found = searched.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let mut problems = Vec::new();
        for seen in found {
            let file = seen.file.display();
            if seen.has_coder_token {
                problems.push(format!("{file} contains the Coder token"));
            }
            for text in &seen.ours {
                if let Ok(principal) = self.token_principal(text).await.map_err(describe)? {
                    let id = principal.token_id.map_or_else(String::new, |id| id.to_string());
                    problems.push(format!("{file} contains token {id} of '{}'", principal.name));
                }
            }
        }
        Ok(problems)
    }
}

fn describe(error: impl Into<Error>) -> String {
    error.into().to_string()
}

fn checked(invariant: Invariant, problems: Problems) -> Check {
    let name = invariant.name();
    let remedy = Some(invariant.remedy().to_owned());
    match problems {
        Ok(problems) if problems.is_empty() => {
            Check { name, finding: invariant.statement().to_owned(), remedy: None }
        }
        Ok(problems) => {
            let more = problems.len().saturating_sub(SHOWN);
            let shown = problems.into_iter().take(SHOWN).collect::<Vec<_>>().join("; ");
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            Check { name, finding: format!("{shown}{more}"), remedy }
        }
        Err(error) => Check { name, finding: format!("the check failed: {error}"), remedy },
    }
}
