//! The running deployment: its memory, how it changes, is saved and is announced to watchers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::enclosure::Enclosure;
use super::files;
use super::http::limit::RateLimit;
use super::memory::Memory;
use super::proxy::AppProxy;
use super::pty::{IDLE_LIMIT, PtySessions};
use super::publish::Publishing;
use super::record::Workspace;
use super::shelf::Shelf;
use super::site::{Kept, Layout, Site};
use super::template::{Catalog, Template};
use super::writer::{Saving, Writer};
use super::{LocalOptions, TemplateSources};
use crate::serve::OpenRequests;

/// A watcher that falls further behind looks at the whole state again.
const CHANGES_KEPT: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Deployment {
    pub(crate) options: LocalOptions,
    pub(crate) layout: Layout,
    pub(crate) site: Site,
    pub(crate) enclosure: Enclosure,
    pub(crate) shelf: Shelf,
    /// One permit for each build that may work at a time.
    pub(crate) slots: Semaphore,
    pub(crate) ptys: PtySessions,
    pub(crate) apps: AppProxy,
    pub(crate) limit: RateLimit,
    /// Those of agents.
    pub(crate) open_requests: OpenRequests,
    pub(crate) publishing: Publishing,
    /// Ends streams, supervision and collecting.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Builds that wait or work; a clean stop lets them end before anything else.
    pub(crate) builds: TaskTracker,
    memory: Mutex<Memory>,
    writer: Writer,
    changes: broadcast::Sender<Uuid>,
}

/// Everything a deployment starts from.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) options: LocalOptions,
    pub(crate) layout: Layout,
    pub(crate) site: Site,
    pub(crate) enclosure: Enclosure,
    pub(crate) memory: Memory,
    pub(crate) writer: Writer,
}

impl Deployment {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let templates = catalog(&parts.options, &parts.site).templates();
        Arc::new(Self {
            slots: Semaphore::new(parts.options.slots.get()),
            options: parts.options,
            layout: parts.layout,
            site: parts.site,
            enclosure: parts.enclosure,
            shelf: Shelf::new(templates),
            ptys: PtySessions::new(IDLE_LIMIT),
            apps: AppProxy::default(),
            limit: RateLimit::default(),
            open_requests: OpenRequests::default(),
            publishing: Publishing::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            builds: TaskTracker::new(),
            memory: Mutex::new(parts.memory),
            writer: parts.writer,
            changes: broadcast::Sender::new(CHANGES_KEPT),
        })
    }

    /// Looks at the memory; nothing may wait meanwhile.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.memory())
    }

    /// Changes one workspace, or makes it; what the change accepts is saved and announced, in this order of
    /// changes whatever the order of waiting.
    pub(crate) fn change<T, E>(
        &self,
        workspace: Uuid,
        change: impl FnOnce(&mut Memory) -> Result<T, E>,
    ) -> Result<(T, Saving), E> {
        let mut memory = self.memory();
        let outcome = change(&mut memory)?;
        let saving = self.save(&memory, workspace);
        drop(memory);
        self.announce(workspace);
        Ok((outcome, saving))
    }

    /// Changes a workspace that is there; one that is gone is left alone.
    pub(crate) fn amend(&self, workspace: Uuid, change: impl FnOnce(&mut Workspace)) -> Option<Saving> {
        let amended =
            self.change(workspace, |memory| memory.workspaces.get_mut(&workspace).map(change).ok_or(()));
        amended.ok().map(|((), saving)| saving)
    }

    /// Like `amend`, waiting for the disk; a full one is logged, since the work goes on.
    pub(crate) async fn amend_logged(&self, workspace: Uuid, change: impl FnOnce(&mut Workspace)) {
        if let Some(saving) = self.amend(workspace, change) {
            saving.logged().await;
        }
    }

    /// Takes a workspace out of the record, whatever became of it.
    pub(crate) fn forget(&self, workspace: Uuid) -> Saving {
        let mut memory = self.memory();
        memory.workspaces.remove(&workspace);
        self.writer.remove(self.layout.state_file(workspace))
    }

    /// Changes what is kept beside the workspaces.
    pub(crate) fn change_kept<T, E>(
        &self,
        change: impl FnOnce(&mut Kept) -> Result<T, E>,
    ) -> Result<(T, Saving), E> {
        let mut memory = self.memory();
        let outcome = change(&mut memory.kept)?;
        Ok((outcome, self.writer.save(self.layout.deployment_file(), files::encode(&memory.kept))))
    }

    /// Changes what is only in memory: cancel tokens and metadata.
    pub(crate) fn adjust<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory())
    }

    /// Ids of workspaces, each after a change.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Uuid> {
        self.changes.subscribe()
    }

    pub(crate) fn announce(&self, workspace: Uuid) {
        // Nobody has to be watching.
        let _watchers = self.changes.send(workspace);
    }

    pub(crate) fn template(&self, id: Uuid) -> Option<Arc<Template>> {
        self.shelf.templates().into_iter().find(|template| template.id == id)
    }

    pub(crate) fn template_named(&self, name: &str) -> Option<Arc<Template>> {
        self.shelf.templates().into_iter().find(|template| template.name == name)
    }

    pub(crate) fn version(&self, id: Uuid) -> Option<Arc<Template>> {
        self.shelf.version(id)
    }

    /// Its newest build was made with another version than the one in force.
    pub(crate) fn is_outdated(&self, workspace: &Workspace) -> bool {
        let active = self.template(workspace.template.id).map(|template| template.version_id);
        let used = workspace.latest().map(|latest| latest.version_id);
        active.is_some() && used != active
    }

    /// What the project files say at this moment.
    pub(crate) fn read_templates(&self) -> Vec<Template> {
        catalog(&self.options, &self.site).templates()
    }

    /// The version that a build is made with: this one, or the one in force where this is not known any more.
    pub(crate) fn version_of(&self, workspace: &Workspace, version: Uuid) -> Option<Arc<Template>> {
        let template = self.template(workspace.template.id)?;
        Some(self.version(version).filter(|known| known.id == template.id).unwrap_or(template))
    }

    fn save(&self, memory: &Memory, workspace: Uuid) -> Saving {
        let gone = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let encoded = memory.workspaces.get(&workspace).ok_or_else(gone).and_then(files::encode);
        self.writer.save(self.layout.state_file(workspace), encoded)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A reader that panicked has changed nothing; a change is one assignment after its checks.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn catalog<'a>(options: &'a LocalOptions, site: &Site) -> Catalog<'a> {
    let TemplateSources { projects, roles } = options.files.read();
    Catalog {
        deployment_id: site.deployment_id,
        created_at: site.created_at,
        projects,
        roles,
        here: options.here.as_deref(),
    }
}
