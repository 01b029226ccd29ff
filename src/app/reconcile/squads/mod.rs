//! Carries squads to their end: one worker a squad, which goes on from the record after any stop.

mod begin;
mod member;
mod place;

use std::collections::HashSet;
use std::time::Duration;

use chrono::Utc;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::id::SquadId;
use crate::domain::squad::{ExecutionMode, Squad};

/// How often to look for squads whose work failed for a reason of ours.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// The squads that have a worker.
#[derive(Debug, Default)]
struct Working {
    ids: HashSet<SquadId>,
    tasks: JoinSet<SquadId>,
}

impl Fleet {
    pub(super) async fn squads_until(&self, stop: CancellationToken) {
        let mut accepted = self.0.squads.subscribe();
        let mut again = tokio::time::interval(LOOK_AGAIN);
        let mut working = Working::default();
        loop {
            tokio::select! {
                _ = accepted.changed() => self.squads_begin(&mut working, &stop).await,
                _ = again.tick() => self.squads_begin(&mut working, &stop).await,
                Some(ended) = working.tasks.join_next() => working.forget(ended.ok()),
                () = stop.cancelled() => break,
            }
        }
        while working.tasks.join_next().await.is_some() {}
    }

    async fn squads_begin(&self, working: &mut Working, stop: &CancellationToken) {
        let open = match self.store().squads_open().await {
            Ok(open) => open,
            Err(error) => return tracing::error!(%error, "open squads could not be read"),
        };
        for id in open {
            if working.ids.insert(id) {
                let (fleet, stop) = (self.clone(), stop.clone());
                working.tasks.spawn(async move {
                    let worked = stop.run_until_cancelled(fleet.squad_work(id)).await;
                    if let Some(Err(error)) = worked {
                        tracing::error!(squad.id = %id, %error, "a squad could not be carried on");
                    }
                    id
                });
            }
        }
    }

    /// Wherever this is broken off, the store knows where to go on.
    async fn squad_work(&self, id: SquadId) -> Result<(), Error> {
        let Some(squad) = self.store().squad_by_id(id).await? else { return Ok(()) };
        match squad.execution_mode {
            ExecutionMode::Parallel => self.members_at_once(&squad).await?,
            ExecutionMode::Sequential => self.members_in_turn(&squad).await?,
        }
        self.store().squad_close(id, Utc::now()).await?;
        self.nudge_squads();
        tracing::info!(squad.id = %id, "a squad is done");
        Ok(())
    }

    async fn members_at_once(&self, squad: &Squad) -> Result<(), Error> {
        let work = squad.members.iter().map(|member| self.member_work(squad, member.clone()));
        join_all(work).await.into_iter().collect()
    }

    /// Each begins a while after the one before it has ended, also when that was before our own start.
    async fn members_in_turn(&self, squad: &Squad) -> Result<(), Error> {
        let mut last_end = squad.last_end();
        for member in squad.members.iter().filter(|member| !member.status.is_ended()) {
            // One that has begun has waited before.
            if member.began_at.is_none() {
                tokio::time::sleep(squad.pause(last_end, Utc::now())).await;
            }
            self.member_work(squad, member.clone()).await?;
            last_end = Some(Utc::now());
        }
        Ok(())
    }
}

impl Working {
    /// A worker that panicked names no squad: then all are forgotten once none is left.
    fn forget(&mut self, ended: Option<SquadId>) {
        match ended {
            Some(id) => drop(self.ids.remove(&id)),
            None if self.tasks.is_empty() => self.ids.clear(),
            None => {}
        }
    }
}
