//! The current templates, refreshed when project files change, and their earlier versions.

use std::fmt::Debug;
use std::sync::Arc;

use arc_swap::ArcSwap;
use uuid::Uuid;

use super::Deployment;
use super::template::Template;
use crate::coder::wire::ParameterValue;
use crate::domain::project::Project;
use crate::domain::role::Role;

/// How many replaced versions stay usable for clients that have looked them up.
const EARLIER_KEPT: usize = 100;

/// The source of templates; read repeatedly, off the threads that answer requests.
pub trait TemplateFiles: Debug + Send + Sync {
    fn read(&self) -> TemplateSources;
}

/// The content that templates are derived from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSources {
    pub projects: Vec<Project>,
    pub roles: Vec<Role>,
}

#[derive(Debug)]
pub(crate) struct TemplateCatalog {
    versions: ArcSwap<TemplateVersions>,
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct TemplateVersions {
    templates: Vec<Arc<Template>>,
    /// Replaced versions, the newest last.
    earlier: Vec<Arc<Template>>,
}

impl TemplateCatalog {
    pub(crate) fn new(templates: Vec<Template>) -> Self {
        let templates = templates.into_iter().map(Arc::new).collect();
        let versions = ArcSwap::from_pointee(TemplateVersions { templates, earlier: Vec::new() });
        Self { versions, refreshing: tokio::sync::Mutex::new(()) }
    }

    /// By name.
    pub(crate) fn templates(&self) -> Vec<Arc<Template>> {
        self.versions.load().templates.clone()
    }

    /// A current or earlier version.
    pub(crate) fn version(&self, id: Uuid) -> Option<Arc<Template>> {
        let versions = self.versions.load();
        let mut versions = versions.templates.iter().chain(versions.earlier.iter().rev());
        versions.find(|template| template.version_id == id).cloned()
    }

    /// The values of a preset of any current or earlier version.
    pub(crate) fn preset_values(&self, id: Uuid) -> Option<Vec<ParameterValue>> {
        let versions = self.versions.load();
        let mut versions = versions.templates.iter().chain(versions.earlier.iter().rev());
        versions.find_map(|version| version.preset(id)).map(|preset| preset.values.clone())
    }

    /// Replaces the templates; false if they are the same.
    pub(crate) fn replace(&self, fresh: Vec<Template>) -> bool {
        let versions = self.versions.load_full();
        if versions.templates.iter().map(Arc::as_ref).eq(fresh.iter()) {
            return false;
        }
        let is_replaced = |old: &&Arc<Template>| fresh.iter().all(|new| new.version_id != old.version_id);
        let replaced = versions.templates.iter().filter(is_replaced);
        let mut earlier: Vec<Arc<Template>> = versions.earlier.iter().chain(replaced).cloned().collect();
        earlier.drain(..earlier.len().saturating_sub(EARLIER_KEPT));
        let templates = fresh.into_iter().map(Arc::new).collect();
        self.versions.store(Arc::new(TemplateVersions { templates, earlier }));
        true
    }
}

/// Reads the files until the server stops, so that workspaces of a changed template are shown as outdated.
pub(crate) async fn follow(deployment: Arc<Deployment>) {
    let interval = deployment.options.limits.template_interval;
    while deployment.stop.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
        refresh(&deployment).await;
    }
}

/// Replaces the templates by those that the files describe now. Lookups call this first, so that a create after a
/// change of a file uses the new content.
pub(crate) async fn refresh(deployment: &Arc<Deployment>) {
    let refreshed = async {
        // One refresh at a time: templates read earlier must not replace those read later.
        let _refreshing = deployment.catalog.refreshing.lock().await;
        let reading = Arc::clone(deployment);
        let read = tokio::task::spawn_blocking(move || reading.read_templates()).await;
        if read.is_ok_and(|fresh| deployment.catalog.replace(fresh)) {
            tracing::info!("project or role files have changed; the templates follow them");
        }
    };
    // An unresponsive directory delays no lookup: the current templates serve it.
    if tokio::time::timeout(deployment.options.limits.template_read, refreshed).await.is_err() {
        tracing::warn!("project and role files could not be read in time; the templates stay as they are");
    }
}
