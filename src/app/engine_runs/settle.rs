//! The report on an ended run for its owner: outcome, text and conversation.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::LiveReading;
use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::run::{KEPT_OUTPUT, Run, RunEnd, RunStream};
use crate::engine::budget::stopped;
use crate::engine::{EngineEnd, Exit, FailureKind};

const MAX_STDERR: u64 = 8 * 1024;

/// The result of an ended run.
#[derive(Debug)]
pub(in crate::app) struct EngineReport {
    pub(in crate::app) outcome: EngineOutcome,
    /// The engine's whole text, a paragraph per line.
    pub(in crate::app) text: String,
    /// The engine's id of the conversation.
    pub(in crate::app) conversation: Option<String>,
}

#[derive(Debug)]
pub(in crate::app) enum EngineOutcome {
    /// The end that the engine reported.
    Ended(EngineEnd),
    Canceled,
    /// The run never started and may be started again.
    NotStarted,
}

impl Fleet {
    /// The end to be recorded, from a reading of the whole output: the engine may have completed its work before the
    /// stop for the budget reached it.
    pub(in crate::app) async fn engine_run_end(
        &self,
        run: &Run,
        end: RunEnd,
        reading: Option<&LiveReading>,
    ) -> Result<RunEnd, Error> {
        if end != RunEnd::OverBudget || !reading.is_some_and(LiveReading::has_finished) {
            return Ok(end);
        }
        let exited = RunEnd::Exited { code: 0 };
        match self.engine_run_report(run, &exited).await?.outcome {
            EngineOutcome::Ended(EngineEnd::Complete { .. } | EngineEnd::Question { .. }) => Ok(exited),
            EngineOutcome::Ended(EngineEnd::Failed { .. } | EngineEnd::SessionLost) => Ok(end),
            EngineOutcome::Canceled | EngineOutcome::NotStarted => Ok(end),
        }
    }

    /// The report on a run with this end; safe to repeat.
    pub(in crate::app) async fn engine_run_report(
        &self,
        run: &Run,
        end: &RunEnd,
    ) -> Result<EngineReport, Error> {
        let Some(mut reading) = LiveReading::of(run) else {
            let text = format!("its run {end}, and its output cannot be parsed");
            let outcome = failed(FailureKind::EngineError, text);
            return Ok(EngineReport { outcome, text: String::new(), conversation: None });
        };
        let mut text = Vec::new();
        reading.advance(self, run, |line| text.push(line)).await?;
        reading.finish(|line| text.push(line));
        let conversation = reading.progress.conversation.clone();
        let outcome = self.engine_outcome(run, end, reading).await?;
        Ok(EngineReport { outcome, text: text.join("\n"), conversation })
    }

    async fn engine_outcome(
        &self,
        run: &Run,
        end: &RunEnd,
        reading: LiveReading,
    ) -> Result<EngineOutcome, Error> {
        let status = match end {
            RunEnd::Exited { code } => ExitStatus::from_raw(code << 8),
            RunEnd::Signaled { signal } => ExitStatus::from_raw(*signal),
            RunEnd::Canceled => return Ok(EngineOutcome::Canceled),
            RunEnd::Unstarted => return Ok(EngineOutcome::NotStarted),
            RunEnd::OverBudget => return Ok(failed(FailureKind::Budget, stopped())),
            RunEnd::TimedOut | RunEnd::Failed { .. } | RunEnd::Lost { .. } => {
                return Ok(failed(FailureKind::Crashed, format!("its run {end}")));
            }
        };
        let tail = run.stderr.min(KEPT_OUTPUT).saturating_sub(MAX_STDERR);
        let stderr = self.run_output(run.id, RunStream::Stderr, tail, MAX_STDERR).await?;
        let stderr = String::from_utf8_lossy(&stderr.bytes).into_owned();
        Ok(EngineOutcome::Ended(match reading.reader.end(&Exit { status, stderr }) {
            // The end of the output is lost if the run wrote more than the store keeps.
            EngineEnd::Failed { kind: FailureKind::BadOutput, .. }
                if status.success() && run.stdout > KEPT_OUTPUT =>
            {
                EngineEnd::Complete {
                    text: "its output exceeded the limit, and the end of it is lost".to_owned(),
                }
            }
            end => end,
        }))
    }
}

fn failed(kind: FailureKind, text: String) -> EngineOutcome {
    EngineOutcome::Ended(EngineEnd::Failed { kind, text })
}
