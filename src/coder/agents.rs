//! The call for a workspace agent's metadata.

use futures_util::StreamExt;
use sse_stream::Sse;
use uuid::Uuid;

use super::events::decode;
use super::operation::AGENT_METADATA;
use super::request::Request;
use super::wire::AgentMetadata;
use super::{Client, CoderError};

impl Client {
    /// The current metadata: the first event of the stream, for servers whose lists cannot include it.
    pub async fn agent_metadata(&self, agent: Uuid) -> Result<Vec<AgentMetadata>, CoderError> {
        let operation = AGENT_METADATA.name;
        let events = self.events(Request::new(&AGENT_METADATA, &[&agent])).await?;
        let read = |event: Result<Sse, _>| event.and_then(|event| read(&event)).transpose();
        let mut metadata = std::pin::pin!(events.filter_map(|event| std::future::ready(read(event))));
        let late = CoderError::Timeout { operation };
        let first = tokio::time::timeout(self.shared.timeout, metadata.next()).await.map_err(|_| late)?;
        first.unwrap_or_else(|| {
            let reason = "the stream ended before its first event".to_owned();
            Err(CoderError::Cut { operation, reason })
        })
    }
}

/// Pings keep the connection alive and carry no data.
fn read(event: &Sse) -> Result<Option<Vec<AgentMetadata>>, CoderError> {
    if event.event.as_deref() == Some("ping") {
        return Ok(None);
    }
    let metadata: Option<_> = decode(AGENT_METADATA.name, event)?;
    Ok(Some(metadata.unwrap_or_default()))
}
