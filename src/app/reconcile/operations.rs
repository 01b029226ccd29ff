//! The executor: one operation per agent at a time, in order of acceptance.

use std::collections::HashSet;

use chrono::Utc;
use tokio_util::sync::CancellationToken;

use super::pool::{Pauses, Pool};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::domain::id::{AgentId, OperationId};
use crate::domain::operation::{Operation, OperationKind, Progress};

/// A worker's operation.
#[derive(Debug)]
struct RunningOperation {
    id: OperationId,
    token: CancellationToken,
    /// Whether the operation was already canceled at the worker's start.
    is_canceled: bool,
}

type OperationPool = Pool<AgentId, RunningOperation>;

impl Fleet {
    pub(super) async fn operations_until(self, stop: CancellationToken) {
        let mut accepted = self.0.operations.subscribe();
        let mut pool = OperationPool::new("operation", Pauses::of(self.limits()), stop);
        while pool.turn(accepted.changed()).await {
            match self.store().operations_open().await {
                Ok(open) => self.operations_begin(open, &mut pool).await,
                Err(error) => pool.read_failed(&error.into()),
            }
        }
    }

    /// Starts the first open operation of every agent without a worker; a delete preempts the others.
    async fn operations_begin(&self, open: Vec<Operation>, pool: &mut OperationPool) {
        point("operations.read");
        // A row that cannot be written blocks only its own agent.
        let mut errors = Vec::new();
        let open = self.end_superseded(open, &mut errors).await;
        let open = self.end_canceled(open, pool, &mut errors).await;
        let mut seen: HashSet<AgentId> = HashSet::new();
        for operation in open.iter().filter(|operation| operation.kind == OperationKind::Delete) {
            pool.preempt(operation);
        }
        for operation in open {
            if seen.insert(operation.agent_id()) {
                pool.begin(self.clone(), operation);
            }
        }
        for error in errors {
            pool.retry_soon("the end of an operation could not be recorded; retrying", &error);
        }
    }
}

impl Fleet {
    /// Completes the acceptance of a delete, which cancels all earlier operations, after a kill in between. If that
    /// fails, none of the agent's operations is started.
    async fn end_superseded(&self, mut open: Vec<Operation>, errors: &mut Vec<Error>) -> Vec<Operation> {
        let (mut ended, mut blocked) = (HashSet::new(), HashSet::new());
        for (position, delete) in open.iter().enumerate() {
            let mut earlier = open.iter().take(position);
            if delete.kind == OperationKind::Delete
                && earlier.any(|other| other.agent_id() == delete.agent_id())
            {
                match self.store().operations_cancel_before(delete.id, delete.agent_id(), Utc::now()).await {
                    Ok(overtaken) => ended.extend(overtaken),
                    Err(error) => {
                        blocked.insert(delete.agent_id());
                        errors.push(error.into());
                    }
                }
            }
        }
        open.retain(|operation| !ended.contains(&operation.id) && !blocked.contains(&operation.agent_id()));
        open
    }
}

impl Fleet {
    /// Ends canceled operations that have sent nothing to Coder, at any position in the queue. Running operations are
    /// restarted, so that their planner sees the cancel.
    async fn end_canceled(
        &self,
        open: Vec<Operation>,
        pool: &mut OperationPool,
        errors: &mut Vec<Error>,
    ) -> Vec<Operation> {
        let (mut left, mut blocked) = (Vec::with_capacity(open.len()), HashSet::new());
        for operation in open {
            let is_running = pool.cancel_if_running(&operation);
            let is_unsent = operation.progress == Progress::Accepted;
            if operation.cancel.is_none() || !is_unsent || is_running {
                left.push(operation);
                continue;
            }
            let agent = operation.agent_id();
            if let Err(error) = self.end_unsent(operation).await {
                blocked.insert(agent);
                errors.push(error);
            }
        }
        left.retain(|operation| !blocked.contains(&operation.agent_id()));
        left
    }
}

impl OperationPool {
    /// Whether a worker has the operation. A worker that started before the cancel is stopped at its next safe point.
    fn cancel_if_running(&mut self, operation: &Operation) -> bool {
        let running = self.handle(&operation.agent_id()).filter(|running| running.id == operation.id);
        let Some(running) = running else { return false };
        if operation.cancel.is_some() && !running.is_canceled {
            running.token.cancel();
        }
        true
    }

    fn begin(&mut self, fleet: Fleet, operation: Operation) {
        let token = self.stop().child_token();
        let (id, is_canceled) = (operation.id, operation.cancel.is_some());
        let running = RunningOperation { id, token: token.clone(), is_canceled };
        self.start_with(operation.agent_id(), running, async move { fleet.perform(operation, token).await });
    }

    /// Stops any other operation of the deleted agent at its next safe point.
    fn preempt(&mut self, delete: &Operation) {
        if let Some(running) = self.handle(&delete.agent_id()).filter(|running| running.id != delete.id) {
            running.token.cancel();
        }
    }
}
