//! Reasons of failed builds: the last error lines of their logs, read once per build.

use std::sync::Arc;

use moka::future::Cache;
use uuid::Uuid;

use crate::coder::wire::{Build, BuildLog};
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

    /// The error lines in the failed build's log beyond the job's own error; none if the log cannot be read.
    pub(super) async fn reason(&self, build: &Build) -> Option<Arc<str>> {
        let read = async {
            let logs = self.coder.build_logs(build.id, None).await?;
            let known = build.job.error.as_deref().unwrap_or_default();
            Ok::<_, CoderError>(Arc::from(last_errors(&logs, known)))
        };
        self.known.try_get_with(build.id, read).await.ok().filter(|text| !text.is_empty())
    }
}

fn last_errors(logs: &[BuildLog], known: &str) -> String {
    let known = one_line(known);
    let errors: Vec<String> = logs
        .iter()
        .rev()
        .filter(|log| log.log_level == "error")
        .map(|log| one_line(&log.output))
        .filter(|line| !line.is_empty() && *line != known)
        .take(LINES)
        .collect();
    let in_order: Vec<String> = errors.into_iter().rev().collect();
    cut(&in_order.join("; "), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_what_the_job_has_not_said_yet() {
        let line = |log_level: &str, output: &str| BuildLog {
            id: 1,
            created_at: chrono::DateTime::UNIX_EPOCH,
            log_source: String::new(),
            log_level: log_level.to_owned(),
            stage: String::new(),
            output: output.to_owned(),
        };
        let logs = [line("error", "no\nluck"), line("info", "on the way"), line("error", "cannot clean up")];
        assert_eq!(last_errors(&logs, "no luck"), "cannot clean up");
        assert_eq!(last_errors(&logs, "exit status 1"), "no luck; cannot clean up");
    }
}
