//! The reconciler of squads: one worker per squad, which continues from the store after a restart.

mod begin;
mod member;
mod workspace;

use chrono::Utc;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::pool::{Next, Pauses, Pool};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::id::SquadId;
use crate::domain::squad::{ExecutionMode, Squad};

impl Fleet {
    pub(super) async fn squads_until(self, stop: CancellationToken) {
        let mut accepted = self.0.squads.subscribe();
        let mut pool = Pool::new("squad", Pauses::of(self.limits()), stop);
        while pool.turn(accepted.changed()).await {
            match self.store().squads_open().await {
                Ok(open) => open.into_iter().for_each(|id| pool.start(id, self.clone().squad_work(id))),
                Err(error) => pool.read_failed(&error.into()),
            }
        }
    }

    async fn squad_work(self, id: SquadId) -> Result<Next, Error> {
        let Some(squad) = self.store().squad_by_id(id).await? else { return Ok(Next::AwaitNudge) };
        match squad.execution_mode {
            ExecutionMode::Parallel => self.members_parallel(&squad).await?,
            ExecutionMode::Sequential => self.members_sequential(&squad).await?,
        }
        self.store().squad_close(id, Utc::now()).await?;
        self.nudge_squads();
        tracing::info!(squad.id = %id, "a squad has ended");
        Ok(Next::AwaitNudge)
    }

    async fn members_parallel(&self, squad: &Squad) -> Result<(), Error> {
        let work = squad.members.iter().map(|member| self.member_work(squad, member.clone()));
        join_all(work).await.into_iter().collect()
    }

    /// Starts each member after a pause from the previous member's end, also across a restart of the server.
    async fn members_sequential(&self, squad: &Squad) -> Result<(), Error> {
        let mut last_end = squad.last_end();
        for member in squad.members.iter().filter(|member| !member.is_ended()) {
            // A member that has started has already paused.
            if member.began_at.is_none() {
                tokio::time::sleep(squad.pause(last_end, Utc::now())).await;
            }
            self.member_work(squad, member.clone()).await?;
            last_end = Some(Utc::now());
        }
        Ok(())
    }
}
