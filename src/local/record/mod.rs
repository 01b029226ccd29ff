//! The record of a workspace, as it is saved to disk.

mod agent;
mod build;

use std::path::PathBuf;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) use agent::{Agent, AppHealth, Connection, Lifecycle};
pub(crate) use build::{Build, Job, LogLine, Outcome, Reason};

use crate::coder::wire::AppStatus;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workspace {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) template: TemplateName,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) is_deleted: bool,
    pub(crate) checkout: Checkout,
    /// The commit that the agent started from; none in an empty repository, or if an earlier version made it.
    #[serde(default)]
    pub(crate) base: Option<String>,
    /// How its branch in the caller's repository starts, once decided.
    #[serde(default)]
    pub(crate) branch_start: Option<BranchStart>,
    /// Notes about the start for the agent's creator.
    #[serde(default)]
    pub(crate) start_notes: Vec<String>,
    /// Stopped by a clean stop of the server: the next start of the server restarts it.
    pub(crate) is_to_resume: bool,
    /// Oldest first, never empty.
    pub(crate) builds: Vec<Build>,
    /// The newest report of any build; it outlives its build.
    pub(crate) app_status: Option<AppStatus>,
}

/// The name is recorded too, since a project file may be removed while its workspaces stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateName {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) display_name: String,
}

/// Where the agent works, which decides what a delete may remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Checkout {
    /// Not made yet.
    None,
    /// A clone or an empty repository, owned by the workspace.
    Own,
    /// A worktree of the caller's repository, made by earlier versions.
    Worktree { of: PathBuf },
    /// A clone that borrows the objects of the caller's repository, whose git directory is `store`.
    Clone { of: PathBuf, store: PathBuf },
    /// A directory of the caller's, which builds never change.
    Foreign { directory: PathBuf },
}

/// Recorded before the branch is made, so that a repeated build tells its own branch from an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchStart {
    pub(crate) commit: String,
    /// The earlier branch of that name.
    pub(crate) earlier: Option<EarlierBranch>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EarlierBranch {
    pub(crate) commit: String,
    /// Its new name: `fleet/otter.35569f85f3b1`
    pub(crate) kept_as: String,
}

/// Respawns are counted within this time.
pub(crate) const RESPAWN_WINDOW: TimeDelta = TimeDelta::minutes(10);

impl Workspace {
    /// A workspace without a build and without a directory.
    pub(crate) fn new(id: Uuid, name: String, template: TemplateName) -> Self {
        Self {
            id,
            name,
            template,
            created_at: Utc::now(),
            is_deleted: false,
            checkout: Checkout::None,
            base: None,
            branch_start: None,
            start_notes: Vec::new(),
            is_to_resume: false,
            builds: Vec::new(),
            app_status: None,
        }
    }

    pub(crate) fn latest(&self) -> Option<&Build> {
        self.builds.last()
    }

    pub(crate) fn latest_mut(&mut self) -> Option<&mut Build> {
        self.builds.last_mut()
    }

    pub(crate) fn build(&self, id: Uuid) -> Option<&Build> {
        self.builds.iter().find(|build| build.id == id)
    }

    pub(crate) fn build_mut(&mut self, id: Uuid) -> Option<&mut Build> {
        self.builds.iter_mut().find(|build| build.id == id)
    }

    /// The agent of the newest build, once that build has succeeded.
    pub(crate) fn agent(&self) -> Option<&Agent> {
        let latest = self.latest()?;
        latest.agent.as_ref().filter(|_| latest.job.has_succeeded())
    }

    pub(crate) fn agent_mut(&mut self, id: Uuid) -> Option<&mut Agent> {
        self.latest_mut()?.agent.as_mut().filter(|agent| agent.id == id)
    }

    /// How often the server has restarted the agent within the window; a requested build resets the count.
    pub(crate) fn n_respawns(&self, now: DateTime<Utc>) -> usize {
        let own = self.builds.iter().rev().take_while(|build| build.reason != Reason::Initiator);
        let respawns = own.filter(|build| build.reason == Reason::Respawn);
        respawns.filter(|build| now - build.created_at < RESPAWN_WINDOW).count()
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}
