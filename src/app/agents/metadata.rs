//! Sets metadata: managers on their agents, an agent on itself.

use std::sync::Arc;

use chrono::Utc;

use super::{SetMetadata, audited_call};
use crate::app::Fleet;
use crate::app::caller::{AgentMetadataSet, AgentPermit, Caller};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::metadata::{Dated, USAGE};
use crate::store::StoreError;

impl Fleet {
    pub async fn agent_metadata_set(
        &self,
        caller: &Caller,
        request: SetMetadata,
    ) -> Result<Arc<AgentState>, Error> {
        let name = self.agent_or_self(caller, request.name.as_deref())?;
        let call = audited_call(caller, AgentMetadataSet, &name);
        let set = async { self.metadata_set_on(&self.agent_permitted(&call, &name).await?, request).await };
        self.audited(&call, set.await, |_| None).await
    }

    async fn metadata_set_on(
        &self,
        permit: &AgentPermit<'_, AgentMetadataSet>,
        request: SetMetadata,
    ) -> Result<Arc<AgentState>, Error> {
        let state = permit.target();
        if request.key.as_str() == USAGE {
            let message =
                format!("{USAGE} is reserved for the usage that the fleet counts; choose another key");
            return Err(Error::invalid("key", message));
        }
        // Refresh first: values that the workspace shows now must be older than the value set here.
        self.metadata_refresh(state).await;
        let dated = Dated { value: request.value, changed_at: Utc::now() };
        let set = self.store().metadata_set(state.agent.id, &request.key, &dated).await;
        set.map_err(|error| match error {
            StoreError::MetadataFull => Error::MetadataFull(state.agent.name.to_string()),
            other => other.into(),
        })?;
        let fresh = self.board_refresh(state.agent.id).await?;
        fresh.ok_or_else(|| Error::AgentNotFound(state.agent.name.to_string()))
    }

    /// An agent may omit the name to address itself.
    fn agent_or_self(&self, caller: &Caller, name: Option<&str>) -> Result<String, Error> {
        if let Some(name) = name {
            return Ok(name.to_owned());
        }
        let own = caller.principal.agent.and_then(|id| self.board().now().by_id(id).cloned());
        own.map(|state| state.agent.name.to_string())
            .ok_or_else(|| Error::invalid("agent_name", "agent_name is missing: only an agent may omit it"))
    }
}
