//! Applies a poll of Coder: known, new and missing agents, their reports and tasks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::observe::{
    ObservationContext, apps_of, first_agent, generation_of, metadata_values, observe, resource_values,
    started_at, statuses_of,
};
use super::poll::Listing;
use super::reports::report_of;
use crate::app::Fleet;
use crate::app::discovery::{DiscoveredProjects, ProjectInfo};
use crate::app::error::Error;
use crate::app::snapshot::{AgentState, LiveState, Orphan, ReportedWork, Snapshot};
use crate::app::usage;
use crate::coder::wire::{AppStatus, Workspace};
use crate::coder::{Deleted, ErrorKind};
use crate::domain::agent::Sighting;
use crate::domain::history::Report;
use crate::domain::id::{AgentId, WorkspaceId};
use crate::domain::limits::Limits;
use crate::domain::metadata::{self, START_NOTE};
use crate::domain::name::AgentName;
use crate::domain::status::{Verdict, judge};
use crate::domain::words::{AppState, BuildStatus, Transition};
use crate::store::{NewSighting, StoreError, TasksStamp, UsageReport};

/// Limits the individual lookups of missing workspaces per poll.
const LOOKUPS_PER_POLL: usize = 20;

/// The state of one agent in a poll, to be applied to the agent's newest state.
pub(super) struct AgentUpdate {
    agent: AgentId,
    name_key: String,
    /// The sighting to compare with.
    known: Sighting,
    pub(super) seen: NewSighting,
    live: LiveState,
    workspace_url: String,
    /// The tasks that the verdict was based on.
    tasks_stamp: TasksStamp,
    reports: Vec<Report>,
    /// Figures that no earlier poll showed.
    usage: Option<UsageReport>,
}

impl Fleet {
    pub(super) async fn absorb(&self, listing: Listing) -> Result<(), Error> {
        let found = self.discovered()?;
        let (at, began) = (listing.polled_at, listing.began);
        let known = self.board().now().by_workspace();
        let (mut updates, mut orphans) = (Vec::new(), Vec::new());
        let mut present: HashSet<WorkspaceId> = listing.unreadable.iter().copied().map(WorkspaceId).collect();
        for workspace in &listing.workspaces {
            let Some(info) = found.of_template(workspace.template_id) else { continue };
            let id = WorkspaceId(workspace.id);
            present.insert(id);
            let state = match known.get(&id) {
                Some(state) => self.renamed(state, workspace).await?,
                None => match self.adopt(workspace, PollContext { info, at, began }).await? {
                    Some(state) => state,
                    None => {
                        orphans.extend(self.orphan_of(workspace).await?);
                        continue;
                    }
                },
            };
            if state.live.poll_began > Some(began) {
                continue;
            }
            let info = self.project_of(&state, &found).unwrap_or(info);
            updates.push(self.observe_agent(&state, workspace, PollContext { info, at, began }).await?);
        }
        self.record(updates).await?;
        let missing = known.into_iter().filter(|(id, _)| !present.contains(id));
        self.check_missing(missing.map(|(_, state)| state)).await?;
        self.board().update(|snapshot| {
            snapshot.observed_at = Some(listing.polled_at);
            snapshot.orphans = orphans;
        });
        Ok(())
    }

    /// Applies an individual read of one agent's workspace, for an operation that changes it.
    pub(super) async fn observe_now(
        &self,
        agent: AgentId,
        workspace: &Workspace,
        began: Instant,
    ) -> Result<(), Error> {
        let found = self.discovered()?;
        let snapshot = self.board().now();
        let Some(state) = snapshot.by_id(agent) else { return Ok(()) };
        let Some(info) = self.project_of(state, &found).or_else(|| found.of_template(workspace.template_id))
        else {
            return Ok(());
        };
        let update =
            self.observe_agent(state, workspace, PollContext { info, at: Utc::now(), began }).await?;
        self.record(vec![update]).await
    }

    fn project_of<'a>(&self, state: &AgentState, found: &'a DiscoveredProjects) -> Option<&'a ProjectInfo> {
        found.project(&state.agent.project)
    }

    /// A workspace that exists although its agent is recorded as deleted.
    async fn orphan_of(&self, workspace: &Workspace) -> Result<Option<Orphan>, Error> {
        let agent = self.store().agent_by_workspace(WorkspaceId(workspace.id)).await?;
        let deleted_at = agent.and_then(|agent| agent.deleted_at);
        Ok(deleted_at.map(|deleted_at| Orphan { workspace: workspace.name.clone(), deleted_at }))
    }

    /// A workspace renamed outside of the fleet keeps its agent, under the new name.
    async fn renamed(
        &self,
        state: &Arc<AgentState>,
        workspace: &Workspace,
    ) -> Result<Arc<AgentState>, Error> {
        let new_name = AgentName::parse(&workspace.name).ok().filter(|name| *name != state.agent.name);
        let Some(name) = new_name else { return Ok(Arc::clone(state)) };
        match self.store().agent_rename(state.agent.id, &name).await {
            Ok(()) => Ok(self.board_refresh(state.agent.id).await?.unwrap_or_else(|| Arc::clone(state))),
            // Two workspaces swapped names: the next poll resolves it.
            Err(StoreError::NameTaken) => Ok(Arc::clone(state)),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn observe_agent(
        &self,
        state: &AgentState,
        workspace: &Workspace,
        context: PollContext<'_>,
    ) -> Result<AgentUpdate, Error> {
        let generation = generation_of(workspace, state.agent.sighting.generation);
        let known = ObservationContext {
            tasks: &state.tasks,
            generation,
            resting_at: state.live.resting_at,
            agentless: context.info.project.agentless,
            options: self.options(),
            clock: self.clock(),
        };
        let observation = observe(workspace, &known);
        let mut verdict = judge(&observation);
        self.explain_failure(&mut verdict, workspace).await;
        verdict.note_task(&observation.task);
        let live = LiveState {
            observation: Some(Arc::new(observation)),
            ..live_of(state, workspace, context.began)
        };
        Ok(AgentUpdate {
            agent: state.agent.id,
            name_key: state.agent.name.key(),
            known: state.agent.sighting.clone(),
            reports: reports_of(state, workspace, generation),
            seen: NewSighting { verdict, generation, observed_at: Some(context.at) },
            usage: usage::new_figures(state, live.usage_reported),
            live,
            workspace_url: self.workspace_url(workspace),
            tasks_stamp: state.tasks.stamp(),
        })
    }

    /// Adds the end of the failed build's log to the reason.
    async fn explain_failure(&self, verdict: &mut Verdict, workspace: &Workspace) {
        let build = &workspace.latest_build;
        if BuildStatus::from_word(&build.status) == BuildStatus::Failed
            && let Some(reason) = self.0.failures.reason(build).await
        {
            verdict.reason = format!("{}: {reason}", verdict.reason);
        }
    }

    fn workspace_url(&self, workspace: &Workspace) -> String {
        let base = self.coder().url().as_str().trim_end_matches('/');
        format!("{base}/@{}/{}", workspace.owner_name, workspace.name)
    }

    /// Journals new reports, writes changed sightings, and publishes all updates at once.
    async fn record(&self, mut updates: Vec<AgentUpdate>) -> Result<(), Error> {
        let reports: Vec<Report> =
            updates.iter_mut().flat_map(|update| std::mem::take(&mut update.reports)).collect();
        if !reports.is_empty() {
            self.store().journal_add(&reports).await?;
        }
        let reported: Vec<UsageReport> =
            updates.iter_mut().filter_map(|update| update.usage.take()).collect();
        self.usage_absorb(reported).await?;
        let changed: Vec<(AgentId, NewSighting)> = updates
            .iter()
            .filter(|update| is_worth_writing(update, self.limits()))
            .map(|update| (update.agent, update.seen.clone()))
            .collect();
        let written =
            if changed.is_empty() { Vec::new() } else { self.store().agents_sight(&changed).await? };
        let newest = written.iter().map(|(_, sighting)| sighting.revision).max().unwrap_or(0);
        let mut written: HashMap<AgentId, Sighting> = written.into_iter().collect();
        let mut outdated = Vec::new();
        self.board().update(|snapshot| {
            for update in updates {
                let sighting = written.remove(&update.agent);
                outdated.extend(publish(snapshot, update, sighting));
            }
        });
        self.board().raise(newest);
        // A task changed during the poll: its written verdict may be outdated.
        for agent in outdated {
            self.judge_again(agent).await?;
        }
        Ok(())
    }

    /// A workspace missing in the list: only an explicit response of Coder marks its agent deleted.
    async fn check_missing(&self, missing: impl Iterator<Item = Arc<AgentState>>) -> Result<(), Error> {
        for state in missing.take(LOOKUPS_PER_POLL) {
            let Some(workspace) = state.agent.workspace_id else { continue };
            match self.coder().workspace(workspace.0, Deleted::Exclude).await {
                Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::NotFound) => {
                    self.agent_gone(state.agent.id).await?;
                }
                // It exists or Coder is unreachable: the next poll checks again.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Records that an agent's workspace is gone.
    pub(super) async fn agent_gone(&self, agent: AgentId) -> Result<(), Error> {
        self.store().agent_delete(agent, Utc::now()).await?;
        self.board_refresh(agent).await?;
        Ok(())
    }
}

/// The project and time of a workspace's read.
#[derive(Clone, Copy)]
pub(super) struct PollContext<'a> {
    pub(super) info: &'a ProjectInfo,
    pub(super) at: DateTime<Utc>,
    pub(super) began: Instant,
}

/// Applies an update to the agent's newest state, which may have changed since the poll began. Returns the agent if
/// its tasks changed.
fn publish(snapshot: &mut Snapshot, update: AgentUpdate, written: Option<Sighting>) -> Option<AgentId> {
    let state = snapshot.agents.get_mut(update.name_key.as_str())?;
    if state.agent.id != update.agent {
        return None;
    }
    let state = Arc::make_mut(state);
    // Polls may finish out of order; an older poll must not overwrite the state of a newer one.
    let is_outdated = state.live.poll_began > update.live.poll_began;
    let sighting = &mut state.agent.sighting;
    match written {
        Some(written) if written.revision >= sighting.revision => *sighting = written,
        Some(_) | None if is_outdated => {}
        Some(_) | None => sighting.observed_at = update.seen.observed_at,
    }
    if is_outdated {
        return None;
    }
    let LiveState { resting_at, metadata, metadata_began, .. } = std::mem::take(&mut state.live);
    state.live = LiveState { resting_at, metadata, metadata_began, ..update.live };
    state.live.add_metadata(update.live.metadata, update.live.poll_began);
    state.workspace_url = Some(update.workspace_url);
    state.merge_metadata();
    (state.tasks.stamp() != update.tasks_stamp).then_some(update.agent)
}

fn is_worth_writing(update: &AgentUpdate, limits: &Limits) -> bool {
    let known = &update.known;
    let Verdict { status, reason, attention } = &update.seen.verdict;
    let has_changed = known.status != *status || known.reason != *reason || known.attention != *attention;
    let is_old = known.observed_at.is_none_or(|at| (Utc::now() - at).abs() > limits.sighting_interval);
    has_changed || is_old || known.generation != update.seen.generation
}

fn live_of(state: &AgentState, workspace: &Workspace, poll_began: Instant) -> LiveState {
    let values = metadata_values(workspace);
    let generation = generation_of(workspace, state.agent.sighting.generation);
    let usage_reported = usage::reported(&values, generation).or(state.live.usage_reported);
    let mut dated = state.live.metadata.clone();
    // Coder shows no metadata during a build: keep the last values.
    dated.extend(metadata::date(&state.live.metadata, values, Utc::now()));
    let newest = workspace.latest_app_status.as_ref();
    let is_working = newest.filter(|status| AppState::from_word(&status.state) == AppState::Working);
    let journaled: HashSet<_> = statuses_of(workspace).map(|status| status.id).collect();
    LiveState {
        metadata: dated,
        metadata_began: state.live.metadata_began,
        start_note: resource_values(workspace).remove(START_NOTE).or_else(|| state.live.start_note.clone()),
        working_on: is_working.map(reported_work).filter(|work| !work.text.is_empty()),
        workspace_agent: first_agent(workspace),
        transition: Some(Transition::from_word(&workspace.latest_build.transition)),
        poll_began: Some(poll_began),
        journaled: Arc::new(journaled),
        observation: None,
        apps: Arc::new(apps_of(workspace)),
        started_at: started_at(workspace),
        resting_at: state.live.resting_at,
        usage_reported,
    }
}

fn reported_work(status: &AppStatus) -> ReportedWork {
    ReportedWork { text: status.message.clone(), at: status.created_at }
}

fn reports_of(state: &AgentState, workspace: &Workspace, generation: i64) -> Vec<Report> {
    let fresh = statuses_of(workspace).filter(|status| !state.live.journaled.contains(&status.id));
    fresh.map(|status| report_of(state.agent.id, status, generation)).collect()
}

#[cfg(test)]
#[path = "absorb_tests.rs"]
mod tests;
