//! Finds the app that serves an agent: the project's app, the usual one, or the only one that answers.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use moka::future::Cache;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::snapshot::{AgentState, WorkspaceApp, WorkspaceApps};
use crate::coder::AppAddress;
use crate::domain::app::AppSeen;
use crate::domain::clock::Clock;

/// The slug of the app in the built-in templates.
const USUAL_SLUG: &str = "ccw";
const MOST_AGENTS: u64 = 10_000;
const STARTUP_TIME: TimeDelta = TimeDelta::minutes(5);

/// The app that answered per workspace agent, so that each workspace agent is probed once.
#[derive(Debug)]
pub(in crate::app) struct AppSlugs(Cache<Uuid, Arc<WorkspaceApp>>);

impl Default for AppSlugs {
    fn default() -> Self {
        Self(Cache::new(MOST_AGENTS))
    }
}

/// The result of the search for an agent's app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AppLookup {
    /// The address, and whether Coder's health check of the app passes.
    Found(AppAddress, bool),
    /// The workspace has no app that could serve the agent.
    NoApp,
    /// All apps have answered or had enough time to, and none of them speaks AgentAPI.
    NotAgentApi,
    /// Some apps have not answered yet.
    Undetermined,
}

impl AppLookup {
    pub(super) fn address(self) -> Option<AppAddress> {
        match self {
            Self::Found(address, _) => Some(address),
            Self::NoApp | Self::NotAgentApi | Self::Undetermined => None,
        }
    }
}

impl Fleet {
    pub(super) async fn app_lookup(&self, state: &AgentState) -> AppLookup {
        let apps = &state.live.apps;
        let found = self.discovered().ok();
        let info = found.as_deref().and_then(|found| found.project(&state.agent.project));
        // No apps are listed while a build is in progress.
        if state.live.workspace_agent.is_none() && !info.is_some_and(|info| info.project.agentless) {
            return AppLookup::Undetermined;
        }
        let wanted = info.and_then(|info| info.project.app_slug.as_deref());
        let candidates = candidates(apps, wanted);
        match candidates.as_slice() {
            [] => AppLookup::NoApp,
            [only] => found_at(apps, only),
            several => self.app_that_responds(state, several).await,
        }
    }

    async fn app_that_responds(&self, state: &AgentState, several: &[&WorkspaceApp]) -> AppLookup {
        let apps = &state.live.apps;
        let Some(agent) = state.live.workspace_agent else { return AppLookup::NoApp };
        if let Some(known) = self.0.app_slugs.0.get(&agent).await {
            return found_at(apps, &known);
        }
        let (mut responding, mut has_all_answers) = (Vec::new(), true);
        for app in several {
            match self.app_query(&address(apps, app), app.is_healthy).await {
                AppSeen::Runner(_) | AppSeen::AgentApi(_) => responding.push((*app).clone()),
                AppSeen::Absent | AppSeen::Foreign => {}
                AppSeen::Unasked | AppSeen::Silent { .. } => has_all_answers = false,
            }
        }
        match responding.as_slice() {
            [only] => {
                self.0.app_slugs.0.insert(agent, Arc::new(only.clone())).await;
                found_at(apps, only)
            }
            [] if !has_all_answers && is_starting_up(state.live.started_at, &self.clock()) => {
                AppLookup::Undetermined
            }
            // With two answering apps it is not known which one serves the agent.
            [] | [_, _, ..] => AppLookup::NotAgentApi,
        }
    }
}

/// Among several apps some may be started by people on demand, so that their silence proves nothing after this time.
fn is_starting_up(started_at: Option<DateTime<Utc>>, clock: &Clock) -> bool {
    started_at.is_none_or(|at| clock.since(at) < STARTUP_TIME)
}

fn found_at(apps: &WorkspaceApps, app: &WorkspaceApp) -> AppLookup {
    AppLookup::Found(address(apps, app), app.is_healthy)
}

fn candidates<'a>(apps: &'a WorkspaceApps, wanted: Option<&str>) -> Vec<&'a WorkspaceApp> {
    let named = |name: &str| apps.apps.iter().filter(|app| app.slug == name).collect::<Vec<_>>();
    match wanted {
        Some(slug) => named(slug),
        None => Some(named(USUAL_SLUG))
            .filter(|found| !found.is_empty())
            .unwrap_or_else(|| apps.apps.iter().collect()),
    }
}

fn address(apps: &WorkspaceApps, app: &WorkspaceApp) -> AppAddress {
    AppAddress {
        owner: apps.owner.clone(),
        workspace: apps.workspace.clone(),
        agent: Some(app.agent.clone()),
        slug: app.slug.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps(slugs: &[&str]) -> WorkspaceApps {
        let app = |slug: &&str| WorkspaceApp {
            agent: "main".to_owned(),
            slug: (*slug).to_owned(),
            is_healthy: true,
        };
        let apps = slugs.iter().map(app).collect();
        WorkspaceApps { owner: "ann".to_owned(), workspace: "dev".to_owned(), apps }
    }

    #[test]
    fn a_jump_of_the_clock_ends_no_startup_and_prolongs_none() {
        let started = DateTime::UNIX_EPOCH;
        let mut clock = Clock::at(started);
        clock.read(started + TimeDelta::hours(1), TimeDelta::seconds(10));
        assert!(is_starting_up(Some(started), &clock));
        clock.read(started - TimeDelta::hours(1), STARTUP_TIME);
        assert!(!is_starting_up(Some(started), &clock));
    }

    #[test]
    fn the_projects_app_goes_before_the_usual_one_and_that_before_all_others() {
        let found = |slugs: &[&str], wanted| {
            candidates(&apps(slugs), wanted).into_iter().map(|app| app.slug.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(&["vscode", "ccw", "own"], Some("own")), ["own"]);
        assert_eq!(found(&["vscode", "ccw", "own"], None), ["ccw"]);
        assert_eq!(found(&["vscode", "own"], None), ["vscode", "own"]);
        assert_eq!(found(&["vscode", "ccw"], Some("own")), Vec::<String>::new());
    }
}
