//! The gate of every use case: decide by the principal, audit what changes something and what is refused.

use std::path::PathBuf;

use chrono::Utc;

use super::Fleet;
use super::audit::repeatable;
use super::error::Error;
use crate::domain::access::{Action, Principal, RoomNeeded, Target, authorize};
use crate::domain::id::OperationId;
use crate::domain::operation::Failure;
use crate::store::{AuditOutcome, AuditRow};

/// Who calls, and through which door.
#[derive(Debug, Clone)]
pub struct Caller {
    pub principal: Principal,
    pub surface: Surface,
    /// The directory the caller says it is in.
    pub directory: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    Mcp,
    Rest,
}

impl Surface {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Rest => "rest",
        }
    }
}

/// What a call was about, for the audit row.
#[derive(Debug, Clone)]
pub(super) struct Deed<'a> {
    pub(super) caller: &'a Caller,
    pub(super) action: Action,
    pub(super) target: Option<String>,
}

impl Deed<'_> {
    fn row(&self, outcome: AuditOutcome) -> AuditRow {
        let principal = &self.caller.principal;
        AuditRow {
            at: Utc::now(),
            principal_kind: principal.kind,
            principal: principal.name.clone(),
            token_id: principal.token_id,
            surface: self.caller.surface.word().to_owned(),
            action: self.action.name().to_owned(),
            target: self.target.as_deref().and_then(repeatable),
            outcome,
            code: None,
            reason: None,
            operation_id: None,
        }
    }

    fn denied(&self, code: &str, reason: String) -> AuditRow {
        AuditRow { code: Some(code.to_owned()), reason: Some(reason), ..self.row(AuditOutcome::Denied) }
    }
}

impl Fleet {
    /// Refuses an action that this kind of principal can never do, before its arguments are even read.
    pub async fn action_offered(
        &self,
        caller: &Caller,
        action: Action,
        target: Option<&str>,
    ) -> Result<(), Error> {
        if action.is_offered_to(&caller.principal) {
            return Ok(());
        }
        let deed = Deed { caller, action, target: target.map(str::to_owned) };
        self.permit(&deed, Target::Fleet).await
    }

    /// Refuses what the principal may not do, and leaves a row about it.
    pub(super) async fn permit(&self, deed: &Deed<'_>, target: Target<'_>) -> Result<(), Error> {
        let Err(denial) = authorize(&deed.caller.principal, deed.action, target) else {
            return self.make_room(deed.action.room_needed());
        };
        let error = Error::Forbidden(denial);
        self.audit_refused(deed.denied(error.code().as_str(), error.to_string())).await?;
        Err(error)
    }

    /// On a full disk nothing is begun, and everything can be ended.
    pub(super) fn make_room(&self, needed: RoomNeeded) -> Result<(), Error> {
        match needed {
            RoomNeeded::None => {}
            RoomNeeded::Ending => self.store().room_for_endings(),
            RoomNeeded::Beginning => self.store().room_for_new_work()?,
        }
        Ok(())
    }

    /// Leaves the row of an operation that was accepted, failed, and is about to be forgotten.
    pub(super) async fn audit_failure(
        &self,
        deed: &Deed<'_>,
        operation: OperationId,
        failure: &Failure,
    ) -> Result<(), Error> {
        let (code, operation_id) = (Some(failure.code.clone()), Some(operation));
        let row = AuditRow { code, operation_id, ..deed.row(AuditOutcome::Failed) };
        Ok(self.store().audit_add(&row).await?)
    }

    /// Leaves the row of a mutation that was permitted, however it ended. A failed one of an agent had no effect, and
    /// agents may call in a loop.
    pub(super) async fn audited<T>(
        &self,
        deed: &Deed<'_>,
        result: Result<T, Error>,
        operation: impl Fn(&T) -> Option<OperationId>,
    ) -> Result<T, Error> {
        let is_agent = deed.caller.principal.agent.is_some();
        let row = match &result {
            Ok(value) => AuditRow { operation_id: operation(value), ..deed.row(AuditOutcome::Allowed) },
            Err(Error::Forbidden(_)) => return result,
            Err(error) => {
                AuditRow { code: Some(error.code().as_str().to_owned()), ..deed.row(AuditOutcome::Failed) }
            }
        };
        match row.outcome {
            AuditOutcome::Failed if is_agent => self.audit_refused(row).await?,
            AuditOutcome::Failed | AuditOutcome::Allowed | AuditOutcome::Denied => {
                self.store().audit_add(&row).await?;
            }
        }
        result
    }
}
