//! The executor: one operation of an agent at a time, in the order accepted, until each has ended.

use std::collections::HashSet;

use chrono::Utc;
use tokio_util::sync::CancellationToken;

use super::pool::{Pool, READ_INTERVAL};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::id::{AgentId, OperationId};
use crate::domain::operation::{Operation, OperationKind, Progress};

/// One operation under way.
#[derive(Debug)]
struct Begun {
    id: OperationId,
    token: CancellationToken,
    /// Was it begun knowing that it is to end?
    is_canceled: bool,
}

type Running = Pool<AgentId, Begun>;

impl Fleet {
    pub(super) async fn operations_until(&self, stop: CancellationToken) {
        let mut accepted = self.0.operations.subscribe();
        let mut running = Running::new("operation", READ_INTERVAL, stop);
        while running.turn(accepted.changed()).await {
            for error in self.operations_begin(&mut running).await {
                running.read_failed(&error);
            }
        }
    }

    /// Starts the first open operation of every agent that has none running; a delete overtakes.
    async fn operations_begin(&self, running: &mut Running) -> Vec<Error> {
        let open = match self.store().operations_open().await {
            Ok(open) => open,
            Err(error) => return vec![error.into()],
        };
        // A row that cannot be written holds up its own agent alone.
        let mut errors = Vec::new();
        let open = self.overtaken_end(open, &mut errors).await;
        let open = self.canceled_end(open, running, &mut errors).await;
        let mut seen: HashSet<AgentId> = HashSet::new();
        for operation in open.iter().filter(|operation| operation.kind == OperationKind::Delete) {
            running.overtake(operation);
        }
        for operation in open {
            if seen.insert(operation.agent_id()) {
                running.begin(self.clone(), operation);
            }
        }
        errors
    }
}

impl Fleet {
    /// The acceptance of a delete ends what was accepted before it, unless the server was killed in between.
    /// Where that cannot be recorded, none of the agent's operations is begun.
    async fn overtaken_end(&self, mut open: Vec<Operation>, errors: &mut Vec<Error>) -> Vec<Operation> {
        let (mut ended, mut held_up) = (HashSet::new(), HashSet::new());
        for (position, delete) in open.iter().enumerate() {
            let mut earlier = open.iter().take(position);
            if delete.kind == OperationKind::Delete
                && earlier.any(|other| other.agent_id() == delete.agent_id())
            {
                match self.store().operations_cancel_before(delete.id, delete.agent_id(), Utc::now()).await {
                    Ok(overtaken) => ended.extend(overtaken),
                    Err(error) => {
                        held_up.insert(delete.agent_id());
                        errors.push(error.into());
                    }
                }
            }
        }
        open.retain(|operation| !ended.contains(&operation.id) && !held_up.contains(&operation.agent_id()));
        open
    }
}

impl Fleet {
    /// What is to end without its result ends here if Coder was asked for nothing, wherever it is in the line; what is
    /// under way is begun again, so that its planner knows.
    async fn canceled_end(
        &self,
        open: Vec<Operation>,
        running: &mut Running,
        errors: &mut Vec<Error>,
    ) -> Vec<Operation> {
        let (mut left, mut held_up) = (Vec::with_capacity(open.len()), HashSet::new());
        for operation in open {
            let is_running = running.recall(&operation);
            let is_unsent = operation.progress == Progress::Accepted;
            if operation.cancel.is_none() || !is_unsent || is_running {
                left.push(operation);
                continue;
            }
            let agent = operation.agent_id();
            if let Err(error) = self.end_unsent(operation).await {
                held_up.insert(agent);
                errors.push(error);
            }
        }
        left.retain(|operation| !held_up.contains(&operation.agent_id()));
        left
    }
}

impl Running {
    /// Is it under way? One that was begun before its cancel was asked for ends at its next safe point.
    fn recall(&mut self, operation: &Operation) -> bool {
        let begun = self.handle(&operation.agent_id()).filter(|begun| begun.id == operation.id);
        let Some(begun) = begun else { return false };
        if operation.cancel.is_some() && !begun.is_canceled {
            begun.token.cancel();
        }
        true
    }

    fn begin(&mut self, fleet: Fleet, operation: Operation) {
        let token = self.stop().child_token();
        let (id, is_canceled) = (operation.id, operation.cancel.is_some());
        let begun = Begun { id, token: token.clone(), is_canceled };
        self.start_with(operation.agent_id(), begun, async move { fleet.perform(operation, token).await });
    }

    /// Ends whatever else runs for the agent of a delete, at its next safe point.
    fn overtake(&mut self, delete: &Operation) {
        if let Some(begun) = self.handle(&delete.agent_id()).filter(|begun| begun.id != delete.id) {
            begun.token.cancel();
        }
    }
}
