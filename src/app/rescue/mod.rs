//! The work of deleted agents: its records and their files.

mod bundle;
mod directory;
mod find;

use std::path::PathBuf;

use tokio::fs::File;

use super::Fleet;
use super::caller::{AuditedCall, Caller};
use super::error::Error;
use crate::domain::access::{Action, Target};
use crate::domain::id::RescueId;
use crate::domain::page::{Page, PageRequest};
use crate::domain::rescue::{Rescue, RescueOutcome, SavedWork};

pub(super) use bundle::{BundleResult, fetch_bundle};
pub(super) use directory::RescueDirectory;

/// Saved work and its path.
#[derive(Debug, Clone)]
pub struct RescuedWork {
    pub id: RescueId,
    pub path: PathBuf,
    pub work: SavedWork,
}

/// A rescue and the path of its bundle.
#[derive(Debug, Clone)]
pub struct RescueInfo {
    pub rescue: Rescue,
    /// None if nothing was saved.
    pub path: Option<PathBuf>,
}

impl Fleet {
    /// All rescues, newest first.
    pub async fn rescue_list(&self, caller: &Caller, page: PageRequest) -> Result<Page<RescueInfo>, Error> {
        let call = AuditedCall { caller, action: Action::RescueList, target: None };
        self.permit(&call, Target::Fleet).await?;
        let found = self.store().rescues_page(page).await?;
        let items = found.items.into_iter().map(|rescue| self.rescue_info(rescue)).collect();
        Ok(Page { items, total_count: found.total_count, request: found.request })
    }

    /// Finds a rescue by id, id prefix or agent name.
    pub async fn rescue_show(&self, caller: &Caller, id: &str) -> Result<RescueInfo, Error> {
        let call = AuditedCall { caller, action: Action::RescueFetch, target: Some(id.to_owned()) };
        self.permit(&call, Target::Fleet).await?;
        Ok(self.rescue_info(find::find(self.store(), id).await?))
    }

    /// Opens the bundle of a rescue.
    pub async fn rescue_fetch(&self, caller: &Caller, id: &str) -> Result<(RescuedWork, File), Error> {
        let RescueInfo { rescue, .. } = self.rescue_show(caller, id).await?;
        let outcome = rescue.outcome.to_string();
        let nothing = |outcome| Error::NothingRescued { id: id.to_owned(), outcome };
        let work = self.rescued_work(rescue).ok_or_else(|| nothing(outcome))?;
        let file = File::open(&work.path).await;
        let file =
            file.map_err(|error| nothing(format!("{} cannot be read: {error}", work.path.display())))?;
        Ok((work, file))
    }

    pub(super) fn rescued_work(&self, rescue: Rescue) -> Option<RescuedWork> {
        match rescue.outcome {
            RescueOutcome::Saved(work) => {
                Some(RescuedWork { id: rescue.id, path: self.rescue_directory().path(&work.file), work })
            }
            RescueOutcome::Wanted | RescueOutcome::Trying { .. } => None,
            RescueOutcome::Nothing | RescueOutcome::Failed { .. } => None,
        }
    }

    pub(super) fn rescue_directory(&self) -> RescueDirectory<'_> {
        RescueDirectory { directory: &self.options().rescue_dir }
    }

    fn rescue_info(&self, rescue: Rescue) -> RescueInfo {
        RescueInfo { path: self.rescued_work(rescue.clone()).map(|work| work.path), rescue }
    }
}
