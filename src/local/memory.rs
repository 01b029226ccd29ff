//! All workspaces in memory, found by id, name, build, agent or token.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::deployment_info::DeploymentRecord;
use super::record::{Agent, Build, Job, Workspace};
use super::token;

#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) record: DeploymentRecord,
    pub(crate) workspaces: BTreeMap<Uuid, Workspace>,
    /// Tokens that cancel queued and running builds.
    pub(crate) cancels: HashMap<Uuid, CancellationToken>,
    /// Workspaces whose lost agents' processes are being ended; the token signals the end of that.
    pub(crate) clearing: HashMap<Uuid, CancellationToken>,
    /// The metadata values read last.
    pub(crate) metadata: HashMap<Uuid, Vec<MetadataItem>>,
    /// The server is stopping: no new builds begin.
    pub(crate) is_closing: bool,
}

/// One metadata value as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetadataItem {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) error: String,
    pub(crate) collected_at: DateTime<Utc>,
}

/// The position of a queued build, and the length of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuePosition {
    pub(crate) position: usize,
    pub(crate) size: usize,
}

impl Memory {
    pub(crate) fn new(record: DeploymentRecord, workspaces: Vec<Workspace>) -> Self {
        let workspaces = workspaces.into_iter().map(|workspace| (workspace.id, workspace)).collect();
        Self {
            record,
            workspaces,
            cancels: HashMap::new(),
            clearing: HashMap::new(),
            metadata: HashMap::new(),
            is_closing: false,
        }
    }

    pub(crate) fn live_named(&self, name: &str) -> Option<&Workspace> {
        self.workspaces.values().find(|workspace| !workspace.is_deleted && workspace.is_named(name))
    }

    /// The live workspace of that name, else the last deleted one.
    pub(crate) fn any_named(&self, name: &str) -> Option<&Workspace> {
        let deleted = || {
            let named = self.workspaces.values().filter(|workspace| workspace.is_named(name));
            named.max_by_key(|workspace| workspace.created_at)
        };
        self.live_named(name).or_else(deleted)
    }

    pub(crate) fn build(&self, id: Uuid) -> Option<(&Workspace, &Build)> {
        self.workspaces.values().find_map(|workspace| Some((workspace, workspace.build(id)?)))
    }

    pub(crate) fn agent(&self, id: Uuid) -> Option<(&Workspace, &Agent)> {
        let agents = self.workspaces.values().filter_map(|workspace| Some((workspace, workspace.agent()?)));
        agents.into_iter().find(|(_, agent)| agent.id == id)
    }

    /// The workspace whose newest agent has this token. The agent need not be connected: it may call while its
    /// build still waits for it.
    pub(crate) fn agent_with_token(&self, token: &str) -> Option<(Uuid, Uuid)> {
        let hash = token::hash(token);
        self.workspaces.values().find_map(|workspace| {
            let agent = workspace.latest()?.agent.as_ref()?;
            token::is_same(&agent.token_hash, &hash).then_some((workspace.id, agent.id))
        })
    }

    pub(crate) fn queue_position(&self, build: &Build) -> QueuePosition {
        if build.job != Job::Pending {
            return QueuePosition { position: 0, size: 0 };
        }
        let pending = || {
            let latest = self.workspaces.values().filter_map(Workspace::latest);
            latest.filter(|other| other.job == Job::Pending)
        };
        let before = pending().filter(|other| (other.created_at, other.id) < (build.created_at, build.id));
        QueuePosition { position: before.count() + 1, size: pending().count() }
    }
}
