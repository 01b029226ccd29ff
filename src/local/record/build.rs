//! The record of one build: its request, the state of its job, and its log.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::agent::Agent;
use crate::coder::wire::{ParameterValue, Transition};

/// Bounds the log: agents can cause lines for as long as their build is the newest one.
const MOST_LINES: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Build {
    pub(crate) id: Uuid,
    pub(crate) job_id: Uuid,
    pub(crate) number: i64,
    pub(crate) transition: Transition,
    pub(crate) reason: Reason,
    pub(crate) version_id: Uuid,
    pub(crate) preset_id: Option<Uuid>,
    pub(crate) values: Vec<ParameterValue>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) job: Job,
    /// A start follows once this stop has succeeded.
    pub(crate) then_start: bool,
    /// A delete that forgets the workspace and keeps its files.
    pub(crate) is_orphan: bool,
    /// This start made the workspace's checkout, which is removed if it fails.
    #[serde(default)]
    pub(crate) has_made_checkout: bool,
    pub(crate) logs: Vec<LogLine>,
    /// Made by a start build; shown once that has succeeded.
    pub(crate) agent: Option<Agent>,
}

/// The initiator of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    Initiator,
    /// The server's own start.
    Autostart,
    /// The server's own clean stop.
    Autostop,
    /// The server's own restart of an agent whose process exited.
    Respawn,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Job {
    Pending,
    Running {
        started_at: DateTime<Utc>,
    },
    Canceling {
        started_at: DateTime<Utc>,
        canceled_at: DateTime<Utc>,
    },
    Ended {
        started_at: Option<DateTime<Utc>>,
        canceled_at: Option<DateTime<Utc>>,
        completed_at: DateTime<Utc>,
        outcome: Outcome,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Outcome {
    Succeeded,
    Failed { error: String },
    Canceled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogLine {
    pub(crate) id: i64,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) level: String,
    pub(crate) stage: String,
    pub(crate) output: String,
}

impl Build {
    /// The workspace's status in Coder's terms.
    pub(crate) fn status(&self) -> &'static str {
        match (&self.job, self.transition) {
            (Job::Pending, _) => "pending",
            (Job::Running { .. }, Transition::Start) => "starting",
            (Job::Running { .. }, Transition::Stop) => "stopping",
            (Job::Running { .. }, Transition::Delete) => "deleting",
            (Job::Canceling { .. }, _) => "canceling",
            (Job::Ended { outcome: Outcome::Failed { .. }, .. }, _) => "failed",
            (Job::Ended { outcome: Outcome::Canceled, .. }, _) => "canceled",
            (Job::Ended { outcome: Outcome::Succeeded, .. }, Transition::Start) => "running",
            (Job::Ended { outcome: Outcome::Succeeded, .. }, Transition::Stop) => "stopped",
            (Job::Ended { outcome: Outcome::Succeeded, .. }, Transition::Delete) => "deleted",
        }
    }

    /// Keeps the first lines, which show the request, and the last ones, which show the outcome.
    pub(crate) fn log(&mut self, level: &str, stage: &str, output: &str) {
        let id = self.logs.last().map_or(1, |last| last.id + 1);
        if self.logs.len() >= MOST_LINES {
            self.logs.drain(MOST_LINES / 2..=self.logs.len() - MOST_LINES / 2);
        }
        self.logs.push(LogLine {
            id,
            created_at: Utc::now(),
            level: level.to_owned(),
            stage: stage.to_owned(),
            output: output.to_owned(),
        });
    }

    /// Starts a pending job, or restarts one interrupted by a kill; false if it has ended.
    pub(crate) fn begin(&mut self) -> bool {
        if self.job == Job::Pending {
            self.job = Job::Running { started_at: Utc::now() };
        }
        self.job.is_active()
    }

    /// A pending job ends at once; a running one when its worker has noticed.
    pub(crate) fn cancel(&mut self) {
        let now = Utc::now();
        match self.job {
            Job::Pending => {
                let (started_at, canceled_at) = (None, Some(now));
                self.job =
                    Job::Ended { started_at, canceled_at, completed_at: now, outcome: Outcome::Canceled };
            }
            Job::Running { started_at } => self.job = Job::Canceling { started_at, canceled_at: now },
            Job::Canceling { .. } | Job::Ended { .. } => {}
        }
    }

    pub(crate) fn end(&mut self, outcome: Outcome) {
        let (started_at, canceled_at) = match self.job {
            Job::Pending => (None, None),
            Job::Running { started_at } => (Some(started_at), None),
            Job::Canceling { started_at, canceled_at } => (Some(started_at), Some(canceled_at)),
            Job::Ended { .. } => return,
        };
        self.job = Job::Ended { started_at, canceled_at, completed_at: Utc::now(), outcome };
    }

    pub(crate) fn updated_at(&self) -> DateTime<Utc> {
        match self.job {
            Job::Ended { completed_at, .. } => completed_at,
            Job::Pending | Job::Running { .. } | Job::Canceling { .. } => self.created_at,
        }
    }
}

impl Job {
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self, Self::Ended { .. })
    }

    pub(crate) fn has_succeeded(&self) -> bool {
        matches!(self, Self::Ended { outcome: Outcome::Succeeded, .. })
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running { .. } => "running",
            Self::Canceling { .. } => "canceling",
            Self::Ended { outcome: Outcome::Succeeded, .. } => "succeeded",
            Self::Ended { outcome: Outcome::Failed { .. }, .. } => "failed",
            Self::Ended { outcome: Outcome::Canceled, .. } => "canceled",
        }
    }
}

impl Reason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Initiator => "initiator",
            Self::Autostart | Self::Respawn => "autostart",
            Self::Autostop => "autostop",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::build::BuildRequest;

    #[test]
    fn a_build_keeps_its_first_and_its_last_lines() {
        let mut build = BuildRequest::new(Transition::Start, Uuid::nil()).into_build(1);
        for _ in 0..2_000 {
            build.log("info", "Starting", "");
        }
        let ids: Vec<i64> = build.logs.iter().map(|line| line.id).collect();
        assert_eq!(ids, (1..=250).chain(1_751..=2_000).collect::<Vec<_>>());
    }
}
