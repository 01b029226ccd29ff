//! The reconcilers: loops that read, compare and act, each safe to repeat.

mod absorb;
mod adopt;
mod await_coder;
mod ending;
pub(super) mod failures;
mod judge;
mod keep;
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
use keep::keep_running;

impl Fleet {
    /// Starts the reconcilers; they end when the fleet stops, after which `tasks` drains.
    pub fn start(&self, tasks: &TaskTracker) {
        self.keep(tasks, "poll", Self::poll_until);
        self.keep(tasks, "operations", Self::operations_until);
        self.keep(tasks, "provisions", Self::provisions_until);
        self.keep(tasks, "tasks", Self::tasks_until);
        self.keep(tasks, "runs", Self::runs_until);
        self.keep(tasks, "squads", Self::squads_until);
    }

    fn keep<F>(&self, tasks: &TaskTracker, name: &'static str, reconciler: fn(Self, CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (fleet, retry) = (self.clone(), self.limits().work_retry);
        let begin = move |stop| reconciler(fleet.clone(), stop);
        tasks.spawn(keep_running(name, retry, self.stop_token(), begin));
    }
}
