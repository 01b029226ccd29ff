//! Requests about tasks and logs, converted to commands.

use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::check::{filled, page_of, request_token};
use super::defaults::{first_page, log_size, reject};
use super::word::{ReportedStateWord, WhenBusyWord};
use crate::app::error::Error;
use crate::app::logs::ShowLog;
use crate::app::tasks::{CancelTask, ReportStatus, StartTask};
use crate::domain::spec::MAX_BYTES;

const MAX_SUMMARY_BYTES: usize = 8 * 1024;
const LONGEST_TIMEOUT: i64 = 7 * 24 * 60 * 60;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartTaskInput {
    pub agent_name: String,
    /// The task, self-contained.
    pub task_description: String,
    /// What to do if the agent has a task: reject, queue (after its queued tasks) or interrupt (ends all earlier tasks, then runs)
    #[serde(default = "reject")]
    pub when_busy: WhenBusyWord,
    /// Seconds of work after which the task is ended, 1 to 604800; no limit if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
    /// Idempotency key: a repeated call with the same key returns the task of the first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CancelTaskInput {
    pub agent_name: String,
    /// Also cancel the queued tasks.
    #[serde(default)]
    pub all: bool,
    /// Stop the workspace if the agent does not react to interrupt and signals.
    #[serde(default)]
    pub escalate: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogInput {
    pub agent_name: String,
    #[serde(default = "first_page")]
    pub page: i64,
    /// 1 to 100, default 1: the newest message.
    #[serde(default = "log_size")]
    pub page_size: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportInput {
    /// complete and failure end your task.
    pub state: ReportedStateWord,
    /// One sentence on what you did or are doing.
    pub summary: String,
    /// What you need to know to continue; it ends your task, and the answer arrives as a new task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Where to look, such as a commit or a pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

impl StartTaskInput {
    pub fn into_command(self) -> Result<StartTask, Error> {
        let request =
            request_token(self.request_key.as_deref(), &Self { request_key: None, ..self.clone() })?;
        filled("task_description", &self.task_description)?;
        limited("task_description", &self.task_description, MAX_BYTES)?;
        Ok(StartTask {
            name: filled("agent_name", &self.agent_name)?,
            description: self.task_description,
            when_busy: self.when_busy.0,
            timeout: self.timeout_seconds.map(timeout).transpose()?,
            request,
        })
    }
}

impl CancelTaskInput {
    pub fn into_command(self) -> Result<CancelTask, Error> {
        let name = filled("agent_name", &self.agent_name)?;
        Ok(CancelTask { name, all: self.all, escalate: self.escalate })
    }
}

impl LogInput {
    pub fn into_command(self) -> Result<ShowLog, Error> {
        Ok(ShowLog { name: self.agent_name, page: page_of(self.page, self.page_size)? })
    }
}

impl ReportInput {
    pub fn into_command(self) -> Result<ReportStatus, Error> {
        limited("summary", &self.summary, MAX_SUMMARY_BYTES)?;
        limited("question", self.question.as_deref().unwrap_or_default(), MAX_SUMMARY_BYTES)?;
        limited("uri", self.uri.as_deref().unwrap_or_default(), MAX_SUMMARY_BYTES)?;
        Ok(ReportStatus {
            state: self.state.0,
            summary: filled("summary", &self.summary)?,
            question: self.question.as_deref().map(|text| filled("question", text)).transpose()?,
            uri: self.uri.as_deref().map(|uri| filled("uri", uri)).transpose()?,
        })
    }
}

fn timeout(seconds: i64) -> Result<TimeDelta, Error> {
    if !(1..=LONGEST_TIMEOUT).contains(&seconds) {
        let message = format!("timeout_seconds must be between 1 and {LONGEST_TIMEOUT}");
        return Err(Error::invalid("timeout_seconds", message));
    }
    Ok(TimeDelta::seconds(seconds))
}

fn limited(field: &str, text: &str, max_bytes: usize) -> Result<(), Error> {
    if text.len() > max_bytes {
        return Err(Error::invalid(field, format!("{field} may have at most {max_bytes} bytes")));
    }
    Ok(())
}
