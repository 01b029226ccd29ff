//! The running deployment: its state in memory, and how changes are saved and announced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::deployment_info::{DeploymentInfo, DeploymentRecord, Layout};
use super::enclosure::Enclosure;
use super::files;
use super::http::limit::RateLimit;
use super::memory::Memory;
use super::proxy::AppProxy;
use super::pty::PtySessions;
use super::publish::Publisher;
use super::record::Workspace;
use super::template::{Template, TemplateInputs};
use super::template_catalog::TemplateCatalog;
use super::writer::{PendingWrite, Writer};
use super::{LocalOptions, TemplateSources};
use crate::serve::OpenRequests;

/// A watcher that lags further behind reads the whole state again.
const CHANGES_KEPT: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Deployment {
    pub(crate) options: LocalOptions,
    pub(crate) layout: Layout,
    pub(crate) info: DeploymentInfo,
    pub(crate) enclosure: Enclosure,
    pub(crate) catalog: TemplateCatalog,
    /// One permit per build that may run at a time.
    pub(crate) slots: Semaphore,
    pub(crate) ptys: PtySessions,
    pub(crate) apps: AppProxy,
    pub(crate) limit: RateLimit,
    /// Requests of agents only.
    pub(crate) open_requests: OpenRequests,
    pub(crate) publisher: Publisher,
    /// Ends streams, supervision and metadata collection.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Queued and running builds; a clean stop awaits them first.
    pub(crate) builds: TaskTracker,
    memory: Mutex<Memory>,
    writer: Writer,
    changes: broadcast::Sender<Uuid>,
}

/// Inputs of a new deployment.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) options: LocalOptions,
    pub(crate) layout: Layout,
    pub(crate) info: DeploymentInfo,
    pub(crate) enclosure: Enclosure,
    pub(crate) memory: Memory,
    pub(crate) writer: Writer,
}

impl Deployment {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let templates = template_inputs(&parts.options, &parts.info).templates();
        Arc::new(Self {
            slots: Semaphore::new(parts.options.slots.get()),
            layout: parts.layout,
            info: parts.info,
            enclosure: parts.enclosure,
            catalog: TemplateCatalog::new(templates),
            ptys: PtySessions::new(parts.options.limits),
            options: parts.options,
            apps: AppProxy::default(),
            limit: RateLimit::default(),
            open_requests: OpenRequests::default(),
            publisher: Publisher::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            builds: TaskTracker::new(),
            memory: Mutex::new(parts.memory),
            writer: parts.writer,
            changes: broadcast::Sender::new(CHANGES_KEPT),
        })
    }

    /// Reads the memory; the closure must not block.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.memory())
    }

    /// Changes or creates one workspace. An accepted change is saved and announced in the order of changes.
    pub(crate) fn change<T, E>(
        &self,
        workspace: Uuid,
        change: impl FnOnce(&mut Memory) -> Result<T, E>,
    ) -> Result<(T, PendingWrite), E> {
        let mut memory = self.memory();
        let outcome = change(&mut memory)?;
        let saving = self.save(&memory, workspace);
        drop(memory);
        self.announce(workspace);
        Ok((outcome, saving))
    }

    /// Changes a workspace if it still exists.
    pub(crate) fn amend(&self, workspace: Uuid, change: impl FnOnce(&mut Workspace)) -> Option<PendingWrite> {
        let amended =
            self.change(workspace, |memory| memory.workspaces.get_mut(&workspace).map(change).ok_or(()));
        amended.ok().map(|((), saving)| saving)
    }

    /// Like `amend`, and waits for the disk; a failed write is logged, since the work continues.
    pub(crate) async fn amend_logged(&self, workspace: Uuid, change: impl FnOnce(&mut Workspace)) {
        if let Some(saving) = self.amend(workspace, change) {
            saving.logged().await;
        }
    }

    /// Removes a workspace from the record.
    pub(crate) fn forget(&self, workspace: Uuid) -> PendingWrite {
        let mut memory = self.memory();
        memory.workspaces.remove(&workspace);
        self.writer.remove(self.layout.state_file(workspace))
    }

    /// Changes the deployment's own record.
    pub(crate) fn change_record(&self, change: impl FnOnce(&mut DeploymentRecord)) -> PendingWrite {
        let mut memory = self.memory();
        change(&mut memory.record);
        self.writer.save(self.layout.deployment_file(), files::encode(&memory.record))
    }

    /// Changes state that is only in memory: cancel tokens and metadata.
    pub(crate) fn adjust<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory())
    }

    /// The id of a workspace after each change.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Uuid> {
        self.changes.subscribe()
    }

    pub(crate) fn announce(&self, workspace: Uuid) {
        // An error means that there are no watchers.
        let _watchers = self.changes.send(workspace);
    }

    pub(crate) fn template(&self, id: Uuid) -> Option<Arc<Template>> {
        self.catalog.templates().into_iter().find(|template| template.id == id)
    }

    pub(crate) fn template_named(&self, name: &str) -> Option<Arc<Template>> {
        self.catalog.templates().into_iter().find(|template| template.name == name)
    }

    pub(crate) fn version(&self, id: Uuid) -> Option<Arc<Template>> {
        self.catalog.version(id)
    }

    /// Whether its newest build was made with another version than the current one.
    pub(crate) fn is_outdated(&self, workspace: &Workspace) -> bool {
        let active = self.template(workspace.template.id).map(|template| template.version_id);
        let used = workspace.latest().map(|latest| latest.version_id);
        active.is_some() && used != active
    }

    /// Reads the templates from the project files.
    pub(crate) fn read_templates(&self) -> Vec<Template> {
        template_inputs(&self.options, &self.info).templates()
    }

    /// The version a build is made with: this one, or the current one if this is no longer known.
    pub(crate) fn version_of(&self, workspace: &Workspace, version: Uuid) -> Option<Arc<Template>> {
        let template = self.template(workspace.template.id)?;
        Some(self.version(version).filter(|known| known.id == template.id).unwrap_or(template))
    }

    fn save(&self, memory: &Memory, workspace: Uuid) -> PendingWrite {
        let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let encoded = memory.workspaces.get(&workspace).ok_or_else(gone).and_then(files::encode);
        self.writer.save(self.layout.state_file(workspace), encoded)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A poisoned lock holds valid state: readers change nothing, and a change is one assignment after its
        // checks.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn template_inputs<'a>(options: &'a LocalOptions, info: &DeploymentInfo) -> TemplateInputs<'a> {
    let TemplateSources { projects, roles } = options.files.read();
    TemplateInputs {
        deployment_id: info.deployment_id,
        created_at: info.created_at,
        projects,
        roles,
        here: options.here.as_deref(),
    }
}
