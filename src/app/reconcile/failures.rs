//! Why builds failed: the last error lines of their logs, asked once a build.

use std::sync::Arc;

use moka::future::Cache;
use uuid::Uuid;

use crate::coder::wire::BuildLog;
use crate::coder::{Client, CoderError};
use crate::domain::text::{cut, one_line};

const MOST_BUILDS: u64 = 1_000;
const LINES: usize = 3;
const LONGEST: usize = 400;

#[derive(Debug)]
pub(in crate::app) struct Failures {
    coder: Client,
    known: Cache<Uuid, Arc<str>>,
}

impl Failures {
    pub(in crate::app) fn new(coder: Client) -> Self {
        Self { coder, known: Cache::new(MOST_BUILDS) }
    }

    /// The end of a failed build's log; none when it cannot be had now.
    pub(super) async fn reason(&self, build: Uuid) -> Option<Arc<str>> {
        let read =
            async { Ok::<_, CoderError>(Arc::from(last_errors(&self.coder.build_logs(build, None).await?))) };
        self.known.try_get_with(build, read).await.ok().filter(|text| !text.is_empty())
    }
}

fn last_errors(logs: &[BuildLog]) -> String {
    let errors: Vec<String> = logs
        .iter()
        .rev()
        .filter(|log| log.log_level == "error" && !log.output.trim().is_empty())
        .take(LINES)
        .map(|log| one_line(&log.output))
        .collect();
    let in_order: Vec<String> = errors.into_iter().rev().collect();
    cut(&in_order.join("; "), LONGEST)
}
