//! The executor: one operation of an agent at a time, in the order accepted, until each has ended.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::Utc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::domain::id::{AgentId, OperationId};
use crate::domain::operation::{Operation, OperationKind, Progress};

/// What could not be read or ended is tried again after this.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

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
            let errors = self.operations_begin(&mut running, &stop).await;
            for error in &errors {
                tracing::error!(%error, "open operations could not be read or ended; they are tried again");
            }
            tokio::select! {
                _ = accepted.changed() => {}
                () = tokio::time::sleep(RETRY_PAUSE), if !errors.is_empty() => {}
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
    async fn operations_begin(&self, running: &mut Running, stop: &CancellationToken) -> Vec<Error> {
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
            if seen.insert(operation.agent_id) && !running.by_agent.contains_key(&operation.agent_id) {
                running.begin(self.clone(), operation, stop);
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
            if delete.kind == OperationKind::Delete && earlier.any(|other| other.agent_id == delete.agent_id)
            {
                match self.store().operations_cancel_before(delete.id, delete.agent_id, Utc::now()).await {
                    Ok(overtaken) => ended.extend(overtaken),
                    Err(error) => {
                        held_up.insert(delete.agent_id);
                        errors.push(error.into());
                    }
                }
            }
        }
        open.retain(|operation| !ended.contains(&operation.id) && !held_up.contains(&operation.agent_id));
        open
    }
}

impl Fleet {
    /// What is to end without its result ends here if Coder was asked for nothing, wherever it is in the line; what is
    /// under way is begun again, so that its planner knows.
    async fn canceled_end(
        &self,
        open: Vec<Operation>,
        running: &Running,
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
            let agent = operation.agent_id;
            if let Err(error) = self.end_unsent(operation).await {
                held_up.insert(agent);
                errors.push(error);
            }
        }
        left.retain(|operation| !held_up.contains(&operation.agent_id));
        left
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
