//! Calls about workspace agents: read one, its log and its metadata.

use futures_util::StreamExt;
use sse_stream::Sse;
use uuid::Uuid;

use super::events::{EventStream, decode};
use super::operation::{AGENT_LOGS, AGENT_METADATA, AGENT_METADATA_WATCH, Operation, WORKSPACE_AGENT};
use super::request::Request;
use super::wire::{AgentLog, AgentMetadata, WorkspaceAgent};
use super::{Client, CoderError};

impl Client {
    pub async fn workspace_agent(&self, agent: Uuid) -> Result<WorkspaceAgent, CoderError> {
        self.call(Request::new(&WORKSPACE_AGENT, &[&agent])).await
    }

    /// The startup log so far, from the line after the given id on.
    pub async fn agent_logs(&self, agent: Uuid, after: Option<i64>) -> Result<Vec<AgentLog>, CoderError> {
        self.call_list(Request::new(&AGENT_LOGS, &[&agent]).query_some("after", after)).await
    }

    /// All keys at once, again whenever one of them changes.
    pub async fn agent_metadata_watch(
        &self,
        agent: Uuid,
    ) -> Result<EventStream<Vec<AgentMetadata>>, CoderError> {
        self.metadata_stream(&AGENT_METADATA_WATCH, agent).await
    }

    /// The metadata as it is now: the first event of the stream, for servers whose list cannot bring it along.
    pub async fn agent_metadata(&self, agent: Uuid) -> Result<Vec<AgentMetadata>, CoderError> {
        let mut stream = self.metadata_stream(&AGENT_METADATA, agent).await?;
        let late = CoderError::Timeout { operation: AGENT_METADATA.name };
        let first = tokio::time::timeout(self.shared.timeout, stream.next()).await.map_err(|_| late)?;
        first.unwrap_or_else(|| {
            let reason = "the stream ended before its first event".to_owned();
            Err(CoderError::Cut { operation: AGENT_METADATA.name, reason })
        })
    }

    async fn metadata_stream(
        &self,
        operation: &'static Operation,
        agent: Uuid,
    ) -> Result<EventStream<Vec<AgentMetadata>>, CoderError> {
        let events = self.events(Request::new(operation, &[&agent])).await?;
        let read = |event: Result<Sse, _>| event.and_then(|event| read(operation.name, &event)).transpose();
        Ok(Box::pin(events.filter_map(move |event| std::future::ready(read(event)))))
    }
}

/// Pings keep the connection alive and say nothing.
fn read(operation: &'static str, event: &Sse) -> Result<Option<Vec<AgentMetadata>>, CoderError> {
    if event.event.as_deref() == Some("ping") {
        return Ok(None);
    }
    let metadata: Option<_> = decode(operation, event)?;
    Ok(Some(metadata.unwrap_or_default()))
}
