//! Converts Coder's workspace into the inputs of the status rule.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::app::FleetOptions;
use crate::app::metadata_reader::values_of;
use crate::app::snapshot::{WorkspaceApp, WorkspaceApps};
use crate::coder::wire::{App, AppStatus, Workspace, WorkspaceAgent};
use crate::domain::clock::Clock;
use crate::domain::metadata::{canonical_key, is_value};
use crate::domain::status::{BuildSeen, Observation, ReportSeen, WorkspaceAgentSeen};
use crate::domain::task;
use crate::domain::words::{AppState, BuildStatus, Connection, Lifecycle, Transition};
use crate::store::LatestTasks;

/// Inputs of the status rule that do not come from the workspace.
pub(super) struct ObservationContext<'a> {
    pub(super) tasks: &'a LatestTasks,
    pub(super) generation: i64,
    pub(super) resting_at: Option<DateTime<Utc>>,
    pub(super) agentless: bool,
    pub(super) options: &'a FleetOptions,
    pub(super) clock: Clock,
}

pub(super) fn observe(workspace: &Workspace, known: &ObservationContext<'_>) -> Observation {
    let build = &workspace.latest_build;
    Observation {
        build: workspace.has_build().then(|| BuildSeen {
            status: BuildStatus::from_word(&build.status),
            since: build.job.completed_at.unwrap_or(build.created_at),
            error: build.job.error.clone(),
        }),
        agents: agents_of(workspace).map(agent_seen).collect(),
        report: workspace.latest_app_status.as_ref().map(report_seen),
        task: task::seen(known.tasks.seen(known.generation), &known.clock),
        resting_at: known.resting_at,
        agentless: known.agentless,
        stuck_after: known.options.stuck_after,
        clock: known.clock.clone(),
    }
}

pub(super) fn agents_of(workspace: &Workspace) -> impl Iterator<Item = &WorkspaceAgent> {
    workspace.latest_build.resources.iter().flat_map(|resource| &resource.agents)
}

/// Every app status of the current build.
pub(super) fn statuses_of(workspace: &Workspace) -> impl Iterator<Item = &AppStatus> {
    agents_of(workspace).flat_map(|agent| &agent.apps).flat_map(|app| &app.statuses)
}

/// The build number of the newest start, as far as this build shows.
pub(super) fn generation_of(workspace: &Workspace, last_known: i64) -> i64 {
    match Transition::from_word(&workspace.latest_build.transition) {
        Transition::Start => workspace.latest_build.build_number,
        Transition::Stop | Transition::Delete | Transition::Unknown(_) => last_known,
    }
}

/// Metadata from the template's resources, without sensitive items.
pub(super) fn resource_values(workspace: &Workspace) -> BTreeMap<String, String> {
    let resources = workspace.latest_build.resources.iter().flat_map(|resource| &resource.metadata);
    let open = resources.filter(|item| !item.sensitive && is_value(&item.value));
    open.filter_map(|item| Some((canonical_key(&item.key)?, item.value.trim().to_owned()))).collect()
}

/// Metadata from resources and workspace agents, under the fleet's keys.
pub(super) fn metadata_values(workspace: &Workspace) -> BTreeMap<String, String> {
    let mut values = resource_values(workspace);
    for agent in agents_of(workspace) {
        values.extend(values_of(&agent.metadata));
    }
    values
}

/// The apps of the workspace.
pub(super) fn apps_of(workspace: &Workspace) -> WorkspaceApps {
    let apps = agents_of(workspace).flat_map(|agent| agent.apps.iter().map(|app| workspace_app(agent, app)));
    WorkspaceApps {
        owner: workspace.owner_name.clone(),
        workspace: workspace.name.clone(),
        apps: apps.collect(),
    }
}

/// An app without a health check counts as healthy.
fn workspace_app(agent: &WorkspaceAgent, app: &App) -> WorkspaceApp {
    let is_healthy = matches!(app.health.as_str(), "healthy" | "disabled" | "");
    WorkspaceApp { agent: agent.name.clone(), slug: app.slug.clone(), is_healthy }
}

/// When this generation started; none if the newest build is no start.
pub(super) fn started_at(workspace: &Workspace) -> Option<DateTime<Utc>> {
    let build = &workspace.latest_build;
    (Transition::from_word(&build.transition) == Transition::Start).then_some(build.created_at)
}

pub(super) fn first_agent(workspace: &Workspace) -> Option<Uuid> {
    agents_of(workspace).next().map(|agent| agent.id)
}

fn agent_seen(agent: &WorkspaceAgent) -> WorkspaceAgentSeen {
    WorkspaceAgentSeen {
        id: agent.id,
        connection: Connection::from_word(&agent.status),
        lifecycle: Lifecycle::from_word(&agent.lifecycle_state),
        disconnected_at: agent.disconnected_at,
    }
}

fn report_seen(status: &AppStatus) -> ReportSeen {
    ReportSeen {
        agent_id: status.agent_id,
        state: AppState::from_word(&status.state),
        message: status.message.clone(),
        needs_answer: status.needs_user_attention,
        at: status.created_at,
    }
}
