//! The executor: one operation of an agent at a time, in the order accepted, until each has ended.

use std::collections::{HashMap, HashSet};

use chrono::Utc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::id::{AgentId, OperationId};
use crate::domain::operation::{Operation, OperationKind, Progress};

/// What runs right now.
#[derive(Debug, Default)]
struct Running {
    tasks: JoinSet<AgentId>,
    by_agent: HashMap<AgentId, Begun>,
}

/// One operation under way.
#[derive(Debug)]
struct Begun {
    id: OperationId,
    token: CancellationToken,
    /// Was it begun knowing that it is to end?
    is_canceled: bool,
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
        let open = self.overtaken_end(self.store().operations_open().await?).await?;
        let open = self.canceled_end(open, running).await?;
        let mut seen: HashSet<AgentId> = HashSet::new();
        for operation in open.iter().filter(|operation| operation.kind == OperationKind::Delete) {
            running.overtake(operation);
        }
        for operation in open {
            if seen.insert(operation.agent_id) && !running.by_agent.contains_key(&operation.agent_id) {
                running.begin(self.clone(), operation, stop);
            }
        }
        Ok(())
    }
}

impl Fleet {
    /// The acceptance of a delete ends what was accepted before it, unless the server was killed in between.
    async fn overtaken_end(&self, mut open: Vec<Operation>) -> Result<Vec<Operation>, Error> {
        let mut ended = HashSet::new();
        for (position, delete) in open.iter().enumerate() {
            let mut earlier = open.iter().take(position);
            if delete.kind == OperationKind::Delete && earlier.any(|other| other.agent_id == delete.agent_id)
            {
                let now = Utc::now();
                ended.extend(self.store().operations_cancel_before(delete.id, delete.agent_id, now).await?);
            }
        }
        open.retain(|operation| !ended.contains(&operation.id));
        Ok(open)
    }
}

impl Fleet {
    /// What is to end without its result ends here if Coder was asked for nothing, wherever it is in the line; what is
    /// under way is begun again, so that its planner knows.
    async fn canceled_end(&self, open: Vec<Operation>, running: &Running) -> Result<Vec<Operation>, Error> {
        let mut left = Vec::with_capacity(open.len());
        for operation in open {
            let is_running = running.recall(&operation);
            let is_unsent = operation.progress == Progress::Accepted;
            if operation.cancel.is_some() && is_unsent && !is_running {
                self.end_unsent(operation).await?;
            } else {
                left.push(operation);
            }
        }
        Ok(left)
    }
}

impl Running {
    /// Is it under way? One that was begun before its cancel was asked for ends at its next safe point.
    fn recall(&self, operation: &Operation) -> bool {
        let begun = self.by_agent.get(&operation.agent_id).filter(|begun| begun.id == operation.id);
        if let Some(begun) = begun.filter(|begun| operation.cancel.is_some() && !begun.is_canceled) {
            begun.token.cancel();
        }
        begun.is_some()
    }

    fn begin(&mut self, fleet: Fleet, operation: Operation, stop: &CancellationToken) {
        let token = stop.child_token();
        let agent = operation.agent_id;
        let is_canceled = operation.cancel.is_some();
        self.by_agent.insert(agent, Begun { id: operation.id, token: token.clone(), is_canceled });
        self.tasks.spawn(async move {
            fleet.perform(operation, token).await;
            agent
        });
    }

    /// Ends whatever else runs for the agent of a delete, at its next safe point.
    fn overtake(&mut self, delete: &Operation) {
        if let Some(begun) = self.by_agent.get(&delete.agent_id)
            && begun.id != delete.id
        {
            begun.token.cancel();
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
