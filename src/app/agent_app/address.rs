//! Finds the app through which an agent is talked to: the project's, the usual one, or the only one that answers.

use std::sync::Arc;

use moka::future::Cache;
use uuid::Uuid;

use super::wire::Status;
use crate::app::Fleet;
use crate::app::snapshot::{AgentState, Apps};
use crate::coder::{AppAddress, AppStyle, CoderError};

/// What our own templates call it.
const USUAL_SLUG: &str = "ccw";
const MOST_AGENTS: u64 = 10_000;

/// Which app of a workspace agent was found to answer, so that it is asked once.
#[derive(Debug)]
pub(in crate::app) struct AppSlugs(Cache<Uuid, Arc<(String, String)>>);

impl Default for AppSlugs {
    fn default() -> Self {
        Self(Cache::new(MOST_AGENTS))
    }
}

impl Fleet {
    /// None when the workspace has no app to talk to.
    pub(super) async fn app_address(&self, state: &AgentState) -> Result<Option<AppAddress>, CoderError> {
        let apps = &state.live.apps;
        let wanted = self.found().ok().and_then(|found| {
            found.project(&state.agent.project).and_then(|info| info.project.app_slug.clone())
        });
        let candidates = candidates(apps, wanted.as_deref());
        match candidates.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(address(apps, only))),
            several => self.app_that_answers(state, several).await,
        }
    }

    async fn app_that_answers(
        &self,
        state: &AgentState,
        several: &[&(String, String)],
    ) -> Result<Option<AppAddress>, CoderError> {
        let apps = &state.live.apps;
        let Some(agent) = state.live.workspace_agent else { return Ok(None) };
        if let Some(known) = self.0.app_slugs.0.get(&agent).await {
            return Ok(Some(address(apps, &known)));
        }
        let mut answering = Vec::new();
        for candidate in several {
            if self.app_get::<Status>(&address(apps, candidate), "/status").await.is_ok_and(|s| s.is_some()) {
                answering.push((*candidate).clone());
            }
        }
        // Two that answer are as good as none: nobody said which one is the agent.
        let [only] = answering.as_slice() else { return Ok(None) };
        self.0.app_slugs.0.insert(agent, Arc::new(only.clone())).await;
        Ok(Some(address(apps, only)))
    }
}

fn candidates<'a>(apps: &'a Apps, wanted: Option<&str>) -> Vec<&'a (String, String)> {
    let named = |name: &str| apps.slugs.iter().filter(|(_, slug)| slug == name).collect::<Vec<_>>();
    match wanted {
        Some(slug) => named(slug),
        None => Some(named(USUAL_SLUG))
            .filter(|found| !found.is_empty())
            .unwrap_or_else(|| apps.slugs.iter().collect()),
    }
}

fn address(apps: &Apps, (agent, slug): &(String, String)) -> AppAddress {
    AppAddress {
        owner: apps.owner.clone(),
        workspace: apps.workspace.clone(),
        agent: Some(agent.clone()),
        slug: slug.clone(),
        style: AppStyle::Path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps(slugs: &[&str]) -> Apps {
        let slugs = slugs.iter().map(|slug| ("main".to_owned(), (*slug).to_owned())).collect();
        Apps { owner: "ann".to_owned(), workspace: "dev".to_owned(), slugs }
    }

    #[test]
    fn the_projects_app_goes_before_the_usual_one_and_that_before_all_others() {
        let found = |slugs: &[&str], wanted| {
            candidates(&apps(slugs), wanted).into_iter().map(|(_, slug)| slug.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(&["vscode", "ccw", "own"], Some("own")), ["own"]);
        assert_eq!(found(&["vscode", "ccw", "own"], None), ["ccw"]);
        assert_eq!(found(&["vscode", "own"], None), ["vscode", "own"]);
        assert_eq!(found(&["vscode", "ccw"], Some("own")), Vec::<String>::new());
    }
}
