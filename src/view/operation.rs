//! Operations as people and managers see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::Paging;
use super::time;
use crate::app::operations::{Cancellation, ListedOperation};
use crate::domain::operation::Progress;
use crate::domain::page::Page;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct OperationList {
    pub operations: Vec<OperationRow>,
    #[serde(flatten)]
    pub paging: Paging,
}

/// One operation on an agent and its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct OperationRow {
    pub id: String,
    pub agent_name: String,
    pub project: String,
    /// create, delete, start, stop or restart
    pub kind: String,
    /// pending, running, done, failed or canceled
    pub state: String,
    /// accepted: no request sent to Coder; sending: a request is being sent; following: waiting for its build to end
    pub step: String,
    /// Why it failed, what a canceled operation left, or what it is waiting for.
    pub message: Option<String>,
    /// The caller that requested it.
    pub requested_by: String,
    /// The caller that canceled it, or null.
    pub canceled_by: Option<String>,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct OperationCanceled {
    pub operation: OperationRow,
    pub message: String,
    /// The delete that cleans up after a canceled create; null for other kinds.
    pub clean_up_operation_id: Option<String>,
}

impl From<&Page<ListedOperation>> for OperationList {
    fn from(page: &Page<ListedOperation>) -> Self {
        Self { operations: page.items.iter().map(OperationRow::from).collect(), paging: Paging::of(page) }
    }
}

impl From<&ListedOperation> for OperationRow {
    fn from(listed: &ListedOperation) -> Self {
        let operation = &listed.operation;
        Self {
            id: operation.id.to_string(),
            agent_name: listed.agent_name.clone(),
            project: listed.project.clone(),
            kind: operation.kind.to_string(),
            state: operation.state().to_string(),
            step: step_of(operation.progress).to_owned(),
            message: operation.note().map(str::to_owned).or_else(|| listed.awaited.clone()),
            requested_by: operation.principal.clone(),
            canceled_by: operation.cancel.as_ref().map(|cancel| cancel.by.clone()),
            created_at: time(operation.created_at),
            updated_at: time(operation.updated_at),
        }
    }
}

impl From<&Cancellation> for OperationCanceled {
    fn from(cancellation: &Cancellation) -> Self {
        Self {
            operation: OperationRow::from(&cancellation.listed),
            message: cancellation.message.clone(),
            clean_up_operation_id: cancellation.clean_up.map(|id| id.to_string()),
        }
    }
}

fn step_of(progress: Progress) -> &'static str {
    match progress {
        Progress::Accepted => "accepted",
        Progress::Sending { .. } => "sending",
        Progress::Following { .. } => "following",
    }
}
