//! Squads as callers see them: one squad, those of the last day, and the progress of one.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};

use super::{SquadOutput, SquadShown};
use crate::app::Fleet;
use crate::app::caller::{AuditedCall, Caller};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::app::waiting::{PROGRESS_INTERVAL, Wait};
use crate::domain::access::{Action, Target};
use crate::domain::agent::AgentStatus;
use crate::domain::id::SquadId;
use crate::domain::role::{Role, RoleKind};
use crate::domain::run::RunStream;
use crate::domain::squad::{Squad, SquadProgress, SquadSummary, StateMode};
use crate::domain::task::Task;

/// Squads older than this are not listed.
const RECENT: TimeDelta = TimeDelta::hours(24);
const MOST_SQUADS: u32 = 50;
const MOST_PENDING: u32 = 100;

/// The current work of the fleet, for callers that run squads.
#[derive(Debug, Clone)]
pub struct SquadOverview {
    /// Busy agents.
    pub active: Vec<Arc<AgentState>>,
    /// Queued tasks with their agents.
    pub pending: Vec<(Arc<AgentState>, Task)>,
    /// The caller's squads of the last day, newest first.
    pub squads: Vec<SquadSummary>,
}

/// A wait for the end of a squad, which shows the progress meanwhile.
#[derive(Debug)]
pub struct SquadWait<'a> {
    fleet: &'a Fleet,
    caller: &'a Caller,
    id: SquadId,
    wait: Wait<'a>,
    seen: Option<SquadProgress>,
}

impl SquadWait<'_> {
    /// The progress: at once, at intervals and after each change; none when the wait is over.
    pub async fn next(&mut self) -> Result<Option<SquadProgress>, Error> {
        let now = match self.seen {
            None => self.fleet.squad_progress(self.caller, self.id).await?,
            Some(seen) if seen.is_over() || self.wait.is_over() => return Ok(None),
            Some(seen) => {
                let limit = self.wait.at_most(PROGRESS_INTERVAL);
                self.fleet.squad_await_progress(self.caller, self.id, (seen, limit)).await?
            }
        };
        self.seen = Some(now);
        Ok(self.seen)
    }
}

impl Fleet {
    /// The roles of all files, sorted by id, and messages about ignored files.
    pub async fn squad_roles(&self, caller: &Caller) -> Result<(Vec<Role>, Vec<String>), Error> {
        let call = AuditedCall { caller, action: Action::SquadRoleList, target: None };
        self.permit(&call, Target::Fleet).await?;
        self.0.catalog.reload();
        let files = self.0.catalog.files();
        let mut roles: Vec<Role> = files.roles.values().cloned().collect();
        roles.sort_by(|one, other| one.id.cmp(&other.id));
        Ok((roles, files.role_problems.clone()))
    }

    pub async fn squad_overview(&self, caller: &Caller) -> Result<SquadOverview, Error> {
        self.squad_permitted(caller, None).await?;
        let snapshot = self.board().now();
        let is_active = |state: &&Arc<AgentState>| state.agent.sighting.status == AgentStatus::Busy;
        let active = snapshot.agents.values().filter(is_active).cloned();
        let queued = self.store().tasks_queued(MOST_PENDING).await?;
        let pending = queued.into_iter().filter_map(|task| {
            let state = snapshot.by_id(task.entry.agent_id)?;
            Some((Arc::clone(state), task))
        });
        let principal = caller.principal.signature();
        let squads = self.store().squads_since(&principal, Utc::now() - RECENT, MOST_SQUADS).await?;
        Ok(SquadOverview { active: active.collect(), pending: pending.collect(), squads })
    }

    /// One squad with up to `limit` bytes of each stream of its members.
    pub async fn squad_show(&self, caller: &Caller, id: SquadId, limit: u64) -> Result<SquadShown, Error> {
        let mut squad = self.squad_of(caller, id).await?;
        // Stateless members have no conversations; those of an earlier stateful server are hidden.
        if self.squad_state_mode() == StateMode::Stateless {
            squad.members.iter_mut().for_each(|member| member.chat = None);
        }
        let mut outputs = Vec::with_capacity(squad.members.len());
        for member in &squad.members {
            outputs.push(SquadOutput {
                stdout: self.member_output(member, RunStream::Stdout, 0, limit).await?,
                stderr: self.member_output(member, RunStream::Stderr, 0, limit).await?,
            });
        }
        Ok(SquadShown { squad, outputs })
    }

    /// Whether members keep their conversations.
    pub fn squad_state_mode(&self) -> StateMode {
        self.options().squads.state_mode
    }

    async fn squad_progress(&self, caller: &Caller, id: SquadId) -> Result<SquadProgress, Error> {
        self.squad_permitted(caller, Some(id)).await?;
        let found = self.store().squad_progress(id).await?;
        let own = found.filter(|(principal, _)| is_own(caller, principal));
        own.map(|(_, progress)| progress).ok_or_else(|| Error::SquadNotFound(id.to_string()))
    }

    /// Waits until one more member has ended, or until the deadline.
    pub async fn squad_await_change(
        &self,
        caller: &Caller,
        id: SquadId,
        limit: Duration,
    ) -> Result<(), Error> {
        let seen = self.squad_progress(caller, id).await?;
        self.squad_await_progress(caller, id, (seen, limit)).await.map(drop)
    }

    /// Waits until all members have ended, or until the configured limit.
    pub fn squad_wait<'a>(&'a self, caller: &'a Caller, id: SquadId) -> SquadWait<'a> {
        let wait = self.wait(self.options().squads.longest_wait);
        SquadWait { fleet: self, caller, id, wait, seen: None }
    }

    async fn squad_await_progress(
        &self,
        caller: &Caller,
        id: SquadId,
        (seen, limit): (SquadProgress, Duration),
    ) -> Result<SquadProgress, Error> {
        let (wait, mut moved) = (self.wait(limit), self.0.squads.subscribe());
        let moved = async {
            loop {
                let progress = self.squad_progress(caller, id).await?;
                if progress != seen || progress.is_over() || !wait.goes_on(moved.changed()).await {
                    return Ok(progress);
                }
            }
        };
        self.while_admitted(caller, moved).await
    }

    /// The caller's squad; operators may read all. A squad of another principal is not found.
    pub(super) async fn squad_of(&self, caller: &Caller, id: SquadId) -> Result<Squad, Error> {
        self.squad_permitted(caller, Some(id)).await?;
        let squad = self.store().squad_by_id(id).await?.filter(|squad| is_own(caller, &squad.principal));
        squad.ok_or_else(|| Error::SquadNotFound(id.to_string()))
    }

    async fn squad_permitted(&self, caller: &Caller, id: Option<SquadId>) -> Result<(), Error> {
        let target = id.map(|id| id.to_string());
        let call = AuditedCall { caller, action: Action::SquadStatus, target };
        self.permit(&call, Target::Fleet).await.map(drop)
    }
}

/// Whether the caller may read a squad of this principal.
fn is_own(caller: &Caller, principal: &str) -> bool {
    let own = &caller.principal;
    let is_operator = own.kind == RoleKind::Operator && own.agent.is_none();
    is_operator || principal == own.signature()
}
