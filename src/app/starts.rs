//! Reads the starts from an agent's list of builds, on demand and once per generation.

use std::collections::HashSet;
use std::time::Duration;

use moka::future::Cache;
use tokio::time::timeout;

use crate::coder::wire::Build;
use crate::coder::{Client, CoderError, Page};
use crate::domain::id::WorkspaceId;
use crate::domain::limits::Limits;
use crate::domain::words::Transition;

const MOST_AGENTS: u64 = 2_000;
/// To Coder, no limit means all builds.
const ALL: Page = Page { limit: 0, offset: 0 };

/// The starts among the builds up to a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Starts {
    /// None if Coder does not keep all builds.
    pub(super) count: Option<i64>,
    /// The earliest build from which on every build is a start.
    pub(super) unstopped_since: i64,
}

#[derive(Debug)]
pub(super) struct StartReader {
    coder: Client,
    known: Cache<(WorkspaceId, i64), Starts>,
    /// Readers do not wait longer for Coder: the starts are then unknown.
    answer_limit: Duration,
}

impl StartReader {
    pub(super) fn new(coder: Client, limits: &Limits) -> Self {
        Self { coder, known: Cache::new(MOST_AGENTS), answer_limit: limits.coder_answer }
    }

    /// None if Coder does not respond.
    pub(super) async fn read(&self, workspace: WorkspaceId, generation: i64) -> Option<Starts> {
        let read = async {
            let late = |_| CoderError::Timeout { operation: "workspace_builds" };
            let builds = timeout(self.answer_limit, self.coder.workspace_builds(workspace.0, ALL))
                .await
                .map_err(late)??;
            Ok::<_, CoderError>(starts_among(&builds, generation))
        };
        let result = self.known.try_get_with((workspace, generation), read).await;
        result.inspect_err(|error| tracing::debug!(%error, "the builds could not be read")).ok()
    }
}

fn starts_among(builds: &[Build], generation: i64) -> Starts {
    let is_start = |build: &&Build| {
        build.build_number <= generation && Transition::from_word(&build.transition) == Transition::Start
    };
    let starts: HashSet<i64> = builds.iter().filter(is_start).map(|build| build.build_number).collect();
    let is_whole = builds.iter().any(|build| build.build_number == 1);
    let row = (1..generation).rev().take_while(|number| starts.contains(number));
    Starts {
        count: i64::try_from(starts.len()).ok().filter(|_| is_whole),
        unstopped_since: row.last().unwrap_or(generation),
    }
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
        let count = |builds: &[Build], generation| starts_among(builds, generation).count;
        assert_eq!(count(&builds(&all), 3), Some(2));
        assert_eq!(count(&builds(&all), 4), Some(3));
        assert_eq!(count(&builds(&all[..3]), 4), None);
    }

    #[test]
    fn a_row_of_starts_ends_at_a_stop_and_at_a_build_that_is_not_kept() {
        let all = [(6, "stop"), (5, "start"), (4, "start"), (3, "start"), (2, "stop"), (1, "start")];
        let since = |builds: &[Build], generation| starts_among(builds, generation).unstopped_since;
        assert_eq!(since(&builds(&all), 5), 3);
        assert_eq!(since(&builds(&all), 3), 3);
        assert_eq!(since(&builds(&all), 1), 1);
        assert_eq!(since(&builds(&all[..3]), 5), 4);
    }
}
