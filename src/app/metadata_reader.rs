//! Reads a workspace agent's metadata on demand; concurrent readers share one read.

use std::collections::BTreeMap;
use std::time::Duration;

use moka::future::Cache;
use tokio::time::timeout;
use uuid::Uuid;

use crate::coder::wire::AgentMetadata;
use crate::coder::{Client, CoderError};
use crate::domain::limits::Limits;
use crate::domain::metadata::{canonical_key, is_value};

const MOST_AGENTS: u64 = 2_000;

/// Values by full key.
pub(super) type Values = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) struct MetadataReader {
    coder: Client,
    /// The workspace agents read a moment ago. Their values are not kept: by now a listing may have shown newer ones.
    recent: Cache<Uuid, ()>,
    /// Readers do not wait longer for Coder: they get what the last listing showed.
    answer_limit: Duration,
}

impl MetadataReader {
    pub(super) fn new(coder: Client, limits: &Limits) -> Self {
        let recent = Cache::builder().max_capacity(MOST_AGENTS).time_to_live(limits.metadata_fresh).build();
        Self { coder, recent, answer_limit: limits.coder_answer }
    }

    /// The next refresh queries Coder, however recent the last one is.
    pub(super) async fn forget(&self, workspace_agent: Uuid) {
        self.recent.invalidate(&workspace_agent).await;
    }

    /// Runs `refresh` unless one has succeeded a moment ago, and waits for one that is in progress.
    pub(super) async fn refresh(
        &self,
        workspace_agent: Uuid,
        refresh: impl Future<Output = Result<(), CoderError>>,
    ) {
        if let Err(error) = self.recent.try_get_with(workspace_agent, refresh).await {
            tracing::debug!(%error, "metadata could not be read");
        }
    }

    /// An error if Coder does not respond or streams no event: metadata never fails a call.
    pub(super) async fn read(&self, workspace_agent: Uuid) -> Result<Values, CoderError> {
        let late = |_| CoderError::Timeout { operation: "agent_metadata" };
        let items =
            timeout(self.answer_limit, self.coder.agent_metadata(workspace_agent)).await.map_err(late)??;
        Ok(values_of(&items))
    }
}

/// Metadata under canonical keys, without failed, empty and truncated values.
pub(super) fn values_of(items: &[AgentMetadata]) -> Values {
    let good = items.iter().filter(|item| item.result.error.is_empty() && is_value(&item.result.value));
    let ours = good.filter_map(|item| {
        Some((canonical_key(&item.description.key)?, item.result.value.trim().to_owned()))
    });
    ours.collect()
}
