//! Counts an agent's starts among its builds on demand, once for each generation.

use std::time::Duration;

use moka::future::Cache;
use tokio::time::timeout;

use crate::coder::wire::Build;
use crate::coder::{Client, CoderError, Page};
use crate::domain::id::WorkspaceId;
use crate::domain::words::Transition;

/// Readers do not wait for Coder: after this long the number is unknown.
const PATIENCE: Duration = Duration::from_secs(3);
const MOST_AGENTS: u64 = 2_000;
/// Coder takes no limit as all there are.
const ALL: Page = Page { limit: 0, offset: 0 };

#[derive(Debug)]
pub(super) struct StartCounter {
    coder: Client,
    known: Cache<(WorkspaceId, i64), Option<i64>>,
}

impl StartCounter {
    pub(super) fn new(coder: Client) -> Self {
        Self { coder, known: Cache::new(MOST_AGENTS) }
    }

    /// How many of the builds up to this generation were starts; none when Coder does not answer, or does not keep them all.
    pub(super) async fn count(&self, workspace: WorkspaceId, generation: i64) -> Option<i64> {
        let read = async {
            let late = |_| CoderError::Timeout { operation: "workspace_builds" };
            let builds =
                timeout(PATIENCE, self.coder.workspace_builds(workspace.0, ALL)).await.map_err(late)??;
            Ok::<_, CoderError>(starts_among(&builds, generation))
        };
        let result = self.known.try_get_with((workspace, generation), read).await;
        result.inspect_err(|error| tracing::debug!(%error, "the builds could not be read")).ok().flatten()
    }
}

fn starts_among(builds: &[Build], generation: i64) -> Option<i64> {
    builds.iter().find(|build| build.build_number == 1)?;
    let is_start = |build: &&Build| {
        build.build_number <= generation && Transition::from_word(&build.transition) == Transition::Start
    };
    i64::try_from(builds.iter().filter(is_start).count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn builds(transitions: &[(i64, &str)]) -> Vec<Build> {
        let id = uuid::Uuid::nil();
        let at = chrono::Utc::now();
        let build = |(number, transition): &(i64, &str)| {
            json!({
                "id": id, "build_number": number, "transition": transition, "status": "running",
                "created_at": at, "updated_at": at, "workspace_id": id, "template_version_id": id, "job": { "id": id, "status": "succeeded" }
            })
        };
        transitions.iter().map(|one| serde_json::from_value(build(one)).unwrap()).collect()
    }

    #[test]
    fn starts_are_counted_up_to_the_generation_and_only_where_all_builds_are_kept() {
        let all = [(4, "start"), (3, "start"), (2, "stop"), (1, "start")];
        assert_eq!(starts_among(&builds(&all), 3), Some(2));
        assert_eq!(starts_among(&builds(&all), 4), Some(3));
        assert_eq!(starts_among(&builds(&all[..3]), 4), None);
    }
}
