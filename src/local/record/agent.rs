//! The record of one workspace agent: its process, its state, and the reports of its app.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::coder::wire::AppStatus;
use crate::process::ProcessId;

/// Every start makes a new one with a new id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Agent {
    pub(crate) id: Uuid,
    pub(crate) resource_id: Uuid,
    pub(crate) app_id: Uuid,
    /// Only the agent's process knows the token itself.
    pub(crate) token_hash: String,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) directory: PathBuf,
    pub(crate) socket: PathBuf,
    /// The port that its process reports to; it cannot change while the process lives.
    #[serde(default)]
    pub(crate) port: u16,
    /// Visible to its processes although hidden from others.
    pub(crate) visible: Vec<PathBuf>,
    /// Readable and not writable for its processes.
    #[serde(default)]
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) process: Option<ProcessId>,
    /// Where this agent's part of the log file starts.
    pub(crate) log_start: u64,
    pub(crate) connection: Connection,
    pub(crate) first_connected_at: Option<DateTime<Utc>>,
    pub(crate) last_connected_at: Option<DateTime<Utc>>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) started_at: Option<DateTime<Utc>>,
    pub(crate) ready_at: Option<DateTime<Utc>>,
    pub(crate) app_health: AppHealth,
    /// Newest first.
    pub(crate) statuses: Vec<AppStatus>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Connection {
    Connecting,
    Connected,
    Disconnected { at: DateTime<Utc> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lifecycle {
    Created,
    Starting,
    Ready,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AppHealth {
    Initializing,
    Healthy,
}

impl Agent {
    pub(crate) fn connect(&mut self) {
        let now = Utc::now();
        self.connection = Connection::Connected;
        self.first_connected_at.get_or_insert(now);
        self.last_connected_at = Some(now);
    }

    /// Lifecycle and app health stay as they were, as on a real server.
    pub(crate) fn disconnect(&mut self) {
        if !matches!(self.connection, Connection::Disconnected { .. }) {
            self.connection = Connection::Disconnected { at: Utc::now() };
        }
    }

    pub(crate) fn unhealthy_reason(&self) -> Option<&'static str> {
        match self.connection {
            Connection::Connecting => Some("agent has not yet connected"),
            Connection::Connected => None,
            Connection::Disconnected { .. } => Some("agent has lost connection"),
        }
    }
}

impl Connection {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected { .. } => "disconnected",
        }
    }
}

impl Lifecycle {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Starting => "starting",
            Self::Ready => "ready",
        }
    }
}

impl AppHealth {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Healthy => "healthy",
        }
    }
}
