//! The executor: one operation of an agent at a time, in the order accepted, until each has ended.

use std::collections::{HashMap, HashSet};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::id::{AgentId, OperationId};
use crate::domain::operation::{Operation, OperationKind};

/// What runs right now.
#[derive(Debug, Default)]
struct Running {
    tasks: JoinSet<AgentId>,
    by_agent: HashMap<AgentId, (OperationId, CancellationToken)>,
}

impl Fleet {
    pub(super) async fn operations_until(&self, stop: CancellationToken) {
        let mut accepted = self.0.operations.subscribe();
        let mut running = Running::default();
        loop {
            accepted.mark_unchanged();
            if let Err(error) = self.operations_begin(&mut running, &stop).await {
                tracing::error!(%error, "open operations could not be read");
            }
            tokio::select! {
                _ = accepted.changed() => {}
                Some(ended) = running.tasks.join_next() => {
                    running.forget(ended.ok());
                }
                () = stop.cancelled() => break,
            }
        }
        // Steps end by themselves at the next safe point; what is left is in the record.
        while running.tasks.join_next().await.is_some() {}
    }

    /// Starts the first open operation of every agent that has none running; a delete overtakes.
    async fn operations_begin(&self, running: &mut Running, stop: &CancellationToken) -> Result<(), Error> {
        let open = self.store().operations_open().await?;
        let mut seen: HashSet<AgentId> = HashSet::new();
        for operation in &open {
            if operation.kind == OperationKind::Delete {
                running.overtake(operation);
            }
        }
        for operation in open {
            if seen.insert(operation.agent_id) && !running.by_agent.contains_key(&operation.agent_id) {
                running.begin(self.clone(), operation, stop);
            }
        }
        Ok(())
    }
}

impl Running {
    fn begin(&mut self, fleet: Fleet, operation: Operation, stop: &CancellationToken) {
        let token = stop.child_token();
        let agent = operation.agent_id;
        self.by_agent.insert(agent, (operation.id, token.clone()));
        self.tasks.spawn(async move {
            fleet.perform(operation, token).await;
            agent
        });
    }

    /// Ends whatever else runs for the agent of a delete, at its next safe point.
    fn overtake(&mut self, delete: &Operation) {
        if let Some((id, token)) = self.by_agent.get(&delete.agent_id)
            && *id != delete.id
        {
            token.cancel();
        }
    }

    /// A task that panicked names no agent: then all that are not running any more are forgotten.
    fn forget(&mut self, agent: Option<AgentId>) {
        match agent {
            Some(agent) => {
                self.by_agent.remove(&agent);
            }
            None if self.tasks.is_empty() => self.by_agent.clear(),
            None => {}
        }
    }
}
