//! The reconcilers: loops that read, compare and act, each safe to repeat.

mod absorb;
mod adopt;
mod await_coder;
mod ending;
pub(super) mod failures;
mod judge;
mod lookup;
mod observe;
mod operations;
mod perform;
mod poll;
mod pool;
mod provisions;
mod reports;
mod rescue;
mod runs;
mod send;
mod squads;
mod task_run;
mod task_send;
mod task_turn;
mod tasks;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Fleet;

impl Fleet {
    /// Starts the reconcilers; they end on `stop`, after which `tasks` drains.
    pub fn start(&self, stop: &CancellationToken, tasks: &TaskTracker) {
        let (fleet, token) = (self.clone(), stop.clone());
        tasks.spawn(async move {
            token.cancelled().await;
            fleet.0.stopping.cancel();
        });
        let (fleet, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { fleet.poll_until(token).await });
        let (fleet, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { fleet.operations_until(token).await });
        let (fleet, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { fleet.provisions_until(token).await });
        let (fleet, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { fleet.tasks_until(token).await });
        let (fleet, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { fleet.runs_until(token).await });
        let (fleet, token) = (self.clone(), stop.clone());
        tasks.spawn(async move { fleet.squads_until(token).await });
    }
}
