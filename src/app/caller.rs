//! Authorization of every use case: decides by the principal, and audits changes and refusals.
//!
//! Only this file can create a `Permit`. Each function that makes a change takes the permit of its own action, so that
//! a change without a check, or with the permit of another action, does not compile.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::Utc;

use super::Fleet;
use super::agents::{RequestToken, target_of};
use super::audit::repeatable;
use super::error::Error;
use super::operations::ListedOperation;
use super::snapshot::AgentState;
use crate::domain::access::{Action, Principal, RoomNeeded, Target, authorize};
use crate::domain::id::OperationId;
use crate::domain::operation::Failure;
use crate::store::{AuditOutcome, AuditRow, RequestKey};

/// The principal of a call and the interface it came through.
#[derive(Debug, Clone)]
pub struct Caller {
    pub principal: Principal,
    pub surface: Surface,
    /// The working directory that the client sent.
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

/// A call as the audit trail records it. `A` is the type of one action, or `Action` for calls that change nothing.
#[derive(Debug, Clone)]
pub(super) struct AuditedCall<'a, A = Action> {
    pub(super) caller: &'a Caller,
    pub(super) action: A,
    pub(super) target: Option<String>,
}

/// Proof that the caller may do the action `A` on this target.
#[derive(Debug)]
pub(super) struct Permit<'a, A, T> {
    call: &'a AuditedCall<'a, A>,
    target: T,
}

/// Permission on one agent, with the state it was decided on.
pub(super) type AgentPermit<'a, A> = Permit<'a, A, Arc<AgentState>>;

/// Defines a type per action.
macro_rules! action_types {
    ($($name:ident)+) => {$(
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $name;

        impl From<$name> for Action {
            fn from($name: $name) -> Self {
                Self::$name
            }
        }
    )+};
}

action_types! {
    AgentCreate AgentDelete AgentMetadataSet OperationCancel ServerStop SquadRun StatusReport TaskCancel TaskStart
    TokenManage
}

impl<'a, A, T> Permit<'a, A, T> {
    pub(super) fn call(&self) -> &'a AuditedCall<'a, A> {
        self.call
    }

    pub(super) fn target(&self) -> &T {
        &self.target
    }

    pub(super) fn into_parts(self) -> (&'a AuditedCall<'a, A>, T) {
        (self.call, self.target)
    }
}

impl<A: Copy + Into<Action>> AuditedCall<'_, A> {
    pub(super) fn action(&self) -> Action {
        self.action.into()
    }

    /// The request's key in the store: per principal and tool.
    pub(super) fn request_key(&self, token: Option<&RequestToken>) -> Option<RequestKey> {
        let token = token?;
        Some(RequestKey {
            principal: self.caller.principal.signature(),
            tool: self.action().name().to_owned(),
            key: token.key.clone(),
            fingerprint: token.fingerprint,
        })
    }

    fn row(&self, outcome: AuditOutcome) -> AuditRow {
        let principal = &self.caller.principal;
        AuditRow {
            at: Utc::now(),
            principal_kind: principal.kind,
            principal: principal.name.clone(),
            token_id: principal.token_id,
            surface: self.caller.surface.word().to_owned(),
            action: self.action().name().to_owned(),
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
    /// Refuses an action that this kind of principal can never do, before its arguments are parsed.
    pub async fn action_offered(
        &self,
        caller: &Caller,
        action: Action,
        target: Option<&str>,
    ) -> Result<(), Error> {
        if action.is_offered_to(&caller.principal) {
            return Ok(());
        }
        let call = AuditedCall { caller, action, target: target.map(str::to_owned) };
        self.permit(&call, Target::Fleet).await.map(drop)
    }

    /// Refuses and audits a call that the principal may not make.
    pub(super) async fn permit<'a, 't, A: Copy + Into<Action>>(
        &self,
        call: &'a AuditedCall<'a, A>,
        target: Target<'t>,
    ) -> Result<Permit<'a, A, Target<'t>>, Error> {
        self.check(call, target).await?;
        Ok(Permit { call, target })
    }

    /// `permit` for an agent in its current state.
    pub(super) async fn permit_agent<'a, A: Copy + Into<Action>>(
        &self,
        call: &'a AuditedCall<'a, A>,
        state: Arc<AgentState>,
    ) -> Result<AgentPermit<'a, A>, Error> {
        self.check(call, Target::Agent(target_of(&state))).await?;
        Ok(Permit { call, target: state })
    }

    /// `permit` for an operation, which needs the same right as its agent.
    pub(super) async fn permit_operation<'a, A: Copy + Into<Action>>(
        &self,
        call: &'a AuditedCall<'a, A>,
        listed: ListedOperation,
    ) -> Result<Permit<'a, A, ListedOperation>, Error> {
        self.check(call, Target::Agent(self.target_of_listed(&listed))).await?;
        Ok(Permit { call, target: listed })
    }

    /// `permit` for several targets; items without a target need free disk space only.
    pub(super) async fn permit_all<'a, A: Copy + Into<Action>, T>(
        &self,
        call: &'a AuditedCall<'a, A>,
        all: Vec<T>,
        target_of: impl Fn(&T) -> Option<Target<'_>>,
    ) -> Result<Permit<'a, A, Vec<T>>, Error> {
        for one in &all {
            match target_of(one) {
                Some(target) => self.check(call, target).await?,
                None => self.make_room(call.action().room_needed())?,
            }
        }
        Ok(Permit { call, target: all })
    }

    async fn check<A: Copy + Into<Action>>(
        &self,
        call: &AuditedCall<'_, A>,
        target: Target<'_>,
    ) -> Result<(), Error> {
        let Err(denial) = authorize(&call.caller.principal, call.action(), target) else {
            return self.make_room(call.action().room_needed());
        };
        let error = Error::Forbidden(denial);
        self.audit_refused(call.denied(error.code().as_str(), error.to_string())).await?;
        Err(error)
    }

    /// On a full disk no work starts, while work can still be ended.
    fn make_room(&self, needed: RoomNeeded) -> Result<(), Error> {
        match needed {
            RoomNeeded::None => {}
            RoomNeeded::Ending => self.store().room_for_endings(),
            RoomNeeded::Beginning => self.store().room_for_new_work()?,
        }
        Ok(())
    }

    /// Audits an accepted operation that failed and is about to be removed from the store.
    pub(super) async fn audit_failure(
        &self,
        call: &AuditedCall<'_, AgentCreate>,
        operation: OperationId,
        failure: &Failure,
    ) -> Result<(), Error> {
        let (code, operation_id) = (Some(failure.code.clone()), Some(operation));
        let row = AuditRow { code, operation_id, ..call.row(AuditOutcome::Failed) };
        Ok(self.store().audit_add(&row).await?)
    }

    /// Audits a permitted mutation and its result. Failures of agents are limited in number, since an agent may call
    /// in a loop.
    pub(super) async fn audited<A: Copy + Into<Action>, T>(
        &self,
        call: &AuditedCall<'_, A>,
        result: Result<T, Error>,
        operation: impl Fn(&T) -> Option<OperationId>,
    ) -> Result<T, Error> {
        let is_agent = call.caller.principal.agent.is_some();
        let row = match &result {
            Ok(value) => AuditRow { operation_id: operation(value), ..call.row(AuditOutcome::Allowed) },
            Err(Error::Forbidden(_)) => return result,
            Err(error) => {
                AuditRow { code: Some(error.code().as_str().to_owned()), ..call.row(AuditOutcome::Failed) }
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
