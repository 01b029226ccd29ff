//! The current state of every agent, held in memory so that readers never wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use chrono::{DateTime, Utc};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::Fleet;
use super::error::Error;
use super::provision::ProvisionState;
use crate::domain::agent::{Agent, AgentStatus};
use crate::domain::id::{AgentId, WorkspaceId};
use crate::domain::metadata::{self, AGENT_SPEC, Dated, Metadata, PULL_REQUEST_URL, START_NOTE};
use crate::domain::name::name_key;
use crate::domain::provision::Provision;
use crate::domain::role::RoleKind;
use crate::domain::status::Observation;
use crate::domain::task::TaskState;
use crate::domain::usage::{Mark, UsageTotal};
use crate::domain::words::{BuildStatus, Connection, Transition};
use crate::store::LatestTasks;

/// One agent: its row, its tasks, and Coder's latest state of it.
#[derive(Debug, Clone)]
pub struct AgentState {
    pub agent: Agent,
    pub kind: RoleKind,
    pub tasks: LatestTasks,
    /// Merged from all sources.
    pub metadata: Metadata,
    pub workspace_url: Option<String>,
    /// The agent's counted usage.
    pub usage: UsageTotal,
    /// The number of starts; only read for a single agent.
    pub starts: Option<i64>,
    /// The files delivered to the current start.
    pub provision_state: ProvisionState,
    pub(super) own_metadata: Metadata,
    pub(super) live: LiveState,
}

/// State that only Coder knows; empty before the first poll.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveState {
    pub(super) metadata: Metadata,
    /// The start of the read that showed this metadata, a poll or a read of this agent alone: values of an older one
    /// never overwrite those of a newer one.
    pub(super) metadata_began: Option<Instant>,
    /// The workspace's own note about its start; values from the agent do not count.
    pub(super) start_note: Option<String>,
    /// The newest report of the current build, if its state is `working`.
    pub(super) working_on: Option<ReportedWork>,
    pub(super) workspace_agent: Option<Uuid>,
    /// The transition of the newest build.
    pub(super) transition: Option<Transition>,
    /// The start of the poll that showed this state, on a monotonic clock: an older poll never overwrites a newer
    /// one.
    pub(super) poll_began: Option<Instant>,
    /// App statuses that the journal has already.
    pub(super) journaled: Arc<std::collections::HashSet<Uuid>>,
    /// The inputs of the last verdict, so that a task's change can be judged at once.
    pub(super) observation: Option<Arc<Observation>>,
    pub(super) apps: Arc<WorkspaceApps>,
    /// When the start build of this generation was created.
    pub(super) started_at: Option<DateTime<Utc>>,
    /// When the agent's app last reported that it waits for input.
    pub(super) resting_at: Option<DateTime<Utc>>,
    /// The usage figures of the last poll, already counted or rejected.
    pub(super) usage_reported: Option<Mark>,
}

/// An agent's report of its current work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedWork {
    pub(super) text: String,
    pub(super) at: DateTime<Utc>,
}

/// The apps of a workspace and their address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WorkspaceApps {
    pub(super) owner: String,
    pub(super) workspace: String,
    pub(super) apps: Vec<WorkspaceApp>,
}

/// One app of a workspace agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkspaceApp {
    pub(super) agent: String,
    pub(super) slug: String,
    /// Coder's health check of the app passes, or there is none.
    pub(super) is_healthy: bool,
}

impl LiveState {
    /// Whether the newest build is a failed start. After a failed stop the machine still runs.
    pub(super) fn has_failed_start(&self) -> bool {
        let build = self.observation.as_deref().and_then(|seen| seen.build.as_ref());
        build.is_some_and(|build| build.status == BuildStatus::Failed)
            && self.transition == Some(Transition::Start)
    }

    /// Whether every workspace agent was connected at the last poll.
    pub(super) fn is_connected(&self) -> bool {
        let agents = self.observation.as_deref().map(|seen| seen.agents.as_slice()).unwrap_or_default();
        !agents.is_empty() && agents.iter().all(|agent| agent.connection == Connection::Connected)
    }

    /// Adds the values of a read, unless a later read has shown others, and bounds what an agent that keeps changing
    /// its keys can make us remember.
    pub(super) fn add_metadata(&mut self, shown: Metadata, began: Option<Instant>) {
        if self.metadata_began > began {
            return;
        }
        self.metadata_began = began;
        self.metadata.extend(shown);
        self.metadata = metadata::bounded(std::mem::take(&mut self.metadata), |_| false);
    }
}

impl AgentState {
    pub(super) fn new(agent: Agent, kind: RoleKind, tasks: LatestTasks, own_metadata: Metadata) -> Self {
        let mut state = Self {
            agent,
            kind,
            tasks,
            own_metadata,
            metadata: Metadata::new(),
            workspace_url: None,
            usage: UsageTotal::default(),
            starts: None,
            provision_state: ProvisionState::default(),
            live: LiveState::default(),
        };
        state.merge_metadata();
        state
    }

    /// Keeps the state that only polls know, and all changes shown since the store was read.
    fn keep_newer(&mut self, known: &Self) {
        self.live = known.live.clone();
        self.workspace_url.clone_from(&known.workspace_url);
        self.provision_state = known.provision_state.clone();
        self.usage = self.usage.later(known.usage);
        if known.tasks.stamp() > self.tasks.stamp() {
            self.tasks = known.tasks.clone();
        }
        let (sighting, shown) = (&mut self.agent.sighting, &known.agent.sighting);
        if shown.revision > sighting.revision {
            *sighting = shown.clone();
        } else {
            sighting.observed_at = shown.observed_at.or(sighting.observed_at);
        }
        self.merge_metadata();
    }

    /// The workspace agent, which runs commands in the workspace.
    pub(super) fn workspace_agent(&self) -> Result<Uuid, Error> {
        let status = self.agent.sighting.status;
        self.live.workspace_agent.ok_or_else(|| Error::NotReady { name: self.agent.name.to_string(), status })
    }

    /// The text of the current task. The agent's own report counts only if it is newer than the end of its last task:
    /// an older report is about that task.
    pub fn current_task(&self) -> Option<&str> {
        if self.agent.sighting.status != AgentStatus::Busy {
            return None;
        }
        let ours = self.tasks.open.as_ref().filter(|task| task.state() != TaskState::Queued);
        let ours = ours.or(self.tasks.running.as_ref());
        let freed_at = self.tasks.last.as_ref().and_then(|task| task.work.last_sign);
        let reported = self.live.working_on.as_ref().filter(|work| Some(work.at) > freed_at);
        ours.map(|task| task.entry.message.as_str()).or(reported.map(|work| work.text.as_str()))
    }

    pub fn metadata_value(&self, key: &str) -> Option<String> {
        self.metadata.get(key).map(|dated| dated.value.clone())
    }

    /// The spec and pull request of the creation count until a newer value replaces them.
    pub(super) fn merge_metadata(&mut self) {
        let at = self.agent.created_at;
        let mut given = Metadata::new();
        given.insert(AGENT_SPEC.to_owned(), Dated { value: self.agent.spec.clone(), changed_at: at });
        if let Some(url) = &self.agent.pull_request_url {
            given.insert(PULL_REQUEST_URL.to_owned(), Dated { value: url.clone(), changed_at: at });
        }
        let merged = metadata::merge([given, self.live.metadata.clone(), self.own_metadata.clone()]);
        self.metadata = metadata::bounded(merged, |key| self.own_metadata.contains_key(key));
        // Only the workspace sets the start note, and the stored spec takes precedence over a template's copy.
        self.metadata.remove(START_NOTE);
        let spec = Some(&self.agent.spec).filter(|spec| metadata::is_value(spec));
        let fixed = [(AGENT_SPEC, spec), (START_NOTE, self.live.start_note.as_ref())];
        for (key, value) in fixed.into_iter().filter_map(|(key, value)| Some((key, value?.clone()))) {
            self.metadata.insert(key.to_owned(), Dated { value, changed_at: at });
        }
    }
}

/// All live agents, in order of their names.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub agents: BTreeMap<Arc<str>, Arc<AgentState>>,
    /// When the last complete poll was taken.
    pub observed_at: Option<DateTime<Utc>>,
    /// Workspaces of deleted agents in the last poll.
    pub(super) orphans: Vec<Orphan>,
}

/// A workspace whose agent is recorded as deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Orphan {
    pub(super) workspace: String,
    pub(super) deleted_at: DateTime<Utc>,
}

impl Snapshot {
    pub fn by_name(&self, name: &str) -> Option<&Arc<AgentState>> {
        self.agents.get(name_key(name).as_str())
    }

    pub fn by_id(&self, id: AgentId) -> Option<&Arc<AgentState>> {
        self.agents.values().find(|state| state.agent.id == id)
    }

    pub(super) fn by_workspace(&self) -> HashMap<WorkspaceId, Arc<AgentState>> {
        let known = self.agents.values();
        known.filter_map(|state| Some((state.agent.workspace_id?, Arc::clone(state)))).collect()
    }

    pub fn counts(&self) -> BTreeMap<AgentStatus, u64> {
        let mut counts = BTreeMap::new();
        for state in self.agents.values() {
            *counts.entry(state.agent.sighting.status).or_insert(0) += 1;
        }
        counts
    }
}

/// The current snapshot and the revision of its last change.
#[derive(Debug)]
pub struct Board {
    current: ArcSwap<Snapshot>,
    writing: Mutex<()>,
    revision: watch::Sender<i64>,
    /// Counts every poll, also those without a visible change.
    polls: watch::Sender<u64>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            current: ArcSwap::default(),
            writing: Mutex::new(()),
            revision: watch::Sender::new(0),
            polls: watch::Sender::new(0),
        }
    }
}

impl Board {
    pub fn now(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Grows with every visible change.
    pub fn changes(&self) -> watch::Receiver<i64> {
        self.revision.subscribe()
    }

    /// Grows with every poll of an agent, also if nothing changed: a wait may depend on a confirmed state.
    pub(super) fn polls(&self) -> watch::Receiver<u64> {
        self.polls.subscribe()
    }

    pub fn revision(&self) -> i64 {
        *self.revision.borrow()
    }

    /// Changes the snapshot; the caller of a visible change then raises the revision.
    pub(super) fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Snapshot::clone(&self.current.load());
        change(&mut next);
        self.current.store(Arc::new(next));
        self.polls.send_modify(|n| *n += 1);
    }

    /// Notifies waiters of a newer revision.
    pub(super) fn raise(&self, revision: i64) {
        self.revision.send_if_modified(|known| {
            let is_newer = revision > *known;
            *known = revision.max(*known);
            is_newer
        });
    }
}

impl Fleet {
    /// Fills the snapshot from the store at start.
    pub(super) async fn board_load(&self) -> Result<(), Error> {
        let agents = self.store().agents_live().await?;
        let mut tasks: HashMap<AgentId, LatestTasks> =
            self.store().tasks_latest().await?.into_iter().collect();
        let mut metadata: HashMap<AgentId, Metadata> =
            self.store().metadata_live().await?.into_iter().collect();
        let mut provisions: HashMap<AgentId, Provision> = self
            .store()
            .provisions_live()
            .await?
            .into_iter()
            .map(|provision| (provision.agent_id, provision))
            .collect();
        let mut usage: HashMap<AgentId, UsageTotal> = self.store().usage_live().await?.into_iter().collect();
        let revision = self.store().revision().await?;
        self.board().update(|snapshot| {
            for agent in agents {
                let usage = usage.remove(&agent.id).unwrap_or_default();
                let tasks = tasks.remove(&agent.id).unwrap_or_default();
                let own = metadata.remove(&agent.id).unwrap_or_default();
                let kind = self.role_kind_or_coding(&agent.role);
                let provision_state =
                    ProvisionState { delivered: provisions.remove(&agent.id), failure: None };
                let state = AgentState { provision_state, usage, ..AgentState::new(agent, kind, tasks, own) };
                snapshot.agents.insert(state.agent.name.key().into(), Arc::new(state));
            }
        });
        self.board().raise(revision);
        Ok(())
    }

    /// Reads one agent's row again and keeps Coder's state of it.
    pub(super) async fn board_refresh(&self, id: AgentId) -> Result<Option<Arc<AgentState>>, Error> {
        let Some(agent) = self.store().agent_by_id(id).await? else {
            self.board().update(|snapshot| snapshot.agents.retain(|_, state| state.agent.id != id));
            return Ok(None);
        };
        let tasks = self.store().tasks_latest_of(id).await?;
        let own = self.store().metadata_of(id).await?;
        let usage = self.store().usage_of(id).await?;
        let kind = self.role_kind_or_coding(&agent.role);
        let is_deleted = agent.deleted_at.is_some();
        let revision = agent.sighting.revision;
        let mut fresh = AgentState { usage, ..AgentState::new(agent, kind, tasks, own) };
        self.board().update(|snapshot| {
            if let Some(known) = snapshot.by_id(id) {
                fresh.keep_newer(known);
            }
            snapshot.agents.retain(|_, state| state.agent.id != id);
            if !is_deleted {
                snapshot.agents.insert(fresh.agent.name.key().into(), Arc::new(fresh.clone()));
            }
        });
        self.board().raise(revision);
        Ok(Some(Arc::new(fresh)))
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
pub(super) mod tests;
