//! Finds the app through which an agent is talked to: the project's, the usual one, or the only one that answers.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use moka::future::Cache;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::snapshot::{AgentState, AppSeat, Apps};
use crate::coder::AppAddress;
use crate::domain::app::AppSeen;

/// What our own templates call it.
const USUAL_SLUG: &str = "ccw";
const MOST_AGENTS: u64 = 10_000;
const SETTLED: TimeDelta = TimeDelta::minutes(5);

/// Which app of a workspace agent was found to answer, so that it is asked once.
#[derive(Debug)]
pub(in crate::app) struct AppSlugs(Cache<Uuid, Arc<AppSeat>>);

impl Default for AppSlugs {
    fn default() -> Self {
        Self(Cache::new(MOST_AGENTS))
    }
}

/// Where an agent's app is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// At this address, and whether Coder knows nothing against it.
    At(AppAddress, bool),
    /// There is none that could be it.
    Nowhere,
    /// All there are have answered or had time enough to, and none of them is it.
    Strangers,
    /// Not all there are have answered yet.
    Unknown,
}

impl Place {
    pub(super) fn address(self) -> Option<AppAddress> {
        match self {
            Self::At(address, _) => Some(address),
            Self::Nowhere | Self::Strangers | Self::Unknown => None,
        }
    }
}

impl Fleet {
    pub(super) async fn app_place(&self, state: &AgentState) -> Place {
        let apps = &state.live.apps;
        let found = self.found().ok();
        let info = found.as_deref().and_then(|found| found.project(&state.agent.project));
        // A build that is under way shows no apps either.
        if state.live.workspace_agent.is_none() && !info.is_some_and(|info| info.project.agentless) {
            return Place::Unknown;
        }
        let wanted = info.and_then(|info| info.project.app_slug.as_deref());
        let candidates = candidates(apps, wanted);
        match candidates.as_slice() {
            [] => Place::Nowhere,
            [only] => place(apps, only),
            several => self.app_that_answers(state, several).await,
        }
    }

    async fn app_that_answers(&self, state: &AgentState, several: &[&AppSeat]) -> Place {
        let apps = &state.live.apps;
        let Some(agent) = state.live.workspace_agent else { return Place::Nowhere };
        if let Some(known) = self.0.app_slugs.0.get(&agent).await {
            return place(apps, &known);
        }
        let (mut answering, mut are_all_clear) = (Vec::new(), true);
        for seat in several {
            match self.app_ask(&address(apps, seat), seat.is_well).await {
                AppSeen::Runner(_) | AppSeen::AgentApi(_) => answering.push((*seat).clone()),
                AppSeen::Absent | AppSeen::Foreign => {}
                AppSeen::Unasked | AppSeen::Silent { .. } => are_all_clear = false,
            }
        }
        match answering.as_slice() {
            [only] => {
                self.0.app_slugs.0.insert(agent, Arc::new(only.clone())).await;
                place(apps, only)
            }
            [] if !are_all_clear && is_young(state) => Place::Unknown,
            // Two that answer are as good as none: nobody said which one is the agent.
            [] | [_, _, ..] => Place::Strangers,
        }
    }
}

/// Where there are several apps, some may be left for people to start; what belongs to the agent is up by then.
fn is_young(state: &AgentState) -> bool {
    state.live.started_at.is_none_or(|started| Utc::now() - started < SETTLED)
}

fn place(apps: &Apps, seat: &AppSeat) -> Place {
    Place::At(address(apps, seat), seat.is_well)
}

fn candidates<'a>(apps: &'a Apps, wanted: Option<&str>) -> Vec<&'a AppSeat> {
    let named = |name: &str| apps.seats.iter().filter(|seat| seat.slug == name).collect::<Vec<_>>();
    match wanted {
        Some(slug) => named(slug),
        None => Some(named(USUAL_SLUG))
            .filter(|found| !found.is_empty())
            .unwrap_or_else(|| apps.seats.iter().collect()),
    }
}

fn address(apps: &Apps, seat: &AppSeat) -> AppAddress {
    AppAddress {
        owner: apps.owner.clone(),
        workspace: apps.workspace.clone(),
        agent: Some(seat.agent.clone()),
        slug: seat.slug.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps(slugs: &[&str]) -> Apps {
        let seat =
            |slug: &&str| AppSeat { agent: "main".to_owned(), slug: (*slug).to_owned(), is_well: true };
        let seats = slugs.iter().map(seat).collect();
        Apps { owner: "ann".to_owned(), workspace: "dev".to_owned(), seats }
    }

    #[test]
    fn the_projects_app_goes_before_the_usual_one_and_that_before_all_others() {
        let found = |slugs: &[&str], wanted| {
            candidates(&apps(slugs), wanted).into_iter().map(|seat| seat.slug.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(&["vscode", "ccw", "own"], Some("own")), ["own"]);
        assert_eq!(found(&["vscode", "ccw", "own"], None), ["ccw"]);
        assert_eq!(found(&["vscode", "own"], None), ["vscode", "own"]);
        assert_eq!(found(&["vscode", "ccw"], Some("own")), Vec::<String>::new());
    }
}
