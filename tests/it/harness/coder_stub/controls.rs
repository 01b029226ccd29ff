//! What a test can do to the stub's workspaces behind the client's back, and see of them.

use super::agent_api::{AgentScript, AppRequest};
use super::state::{AgentItem, ResourceItem, State, Transition, User, Workspace};
use super::workspaces::{self, NewWorkspace};
use super::{CoderStub, shapes};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

/// A workspace in a few words, deleted ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkspaceSummary {
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) status: String,
    pub(crate) builds: usize,
}

/// Time passing.
impl CoderStub {
    /// Takes one step of a workspace's script; false when there is none left.
    pub(crate) fn advance(&self, name: &str) -> bool {
        self.change(name, Workspace::advance)
    }

    pub(crate) fn settle(&self, name: &str) {
        self.change(name, Workspace::settle);
    }

    pub(crate) fn settle_all(&self) {
        self.lock().workspaces.iter_mut().for_each(Workspace::settle);
    }

    /// Makes everything about a workspace this much older, for rules that wait.
    pub(crate) fn backdate(&self, name: &str, by: TimeDelta) {
        self.change(name, |workspace| {
            for at in times(workspace) {
                *at -= by;
            }
        });
    }
}

/// Workspaces coming, changing and going outside of the client.
impl CoderStub {
    /// Adds ready workspaces of the token's user: `prefix-1` to `prefix-count`.
    pub(crate) fn seed(&self, prefix: &str, count: usize) {
        let mut state = self.lock();
        let owner = state.me.clone();
        for number in 1..=count {
            seed_one(&mut state, owner.clone(), &format!("{prefix}-{number}"));
        }
    }

    /// Adds a ready workspace of another user.
    pub(crate) fn seed_foreign(&self, owner: &str, name: &str) {
        let mut state = self.lock();
        let user = state.user(owner).cloned().unwrap_or_else(|| {
            let user = User::new(owner);
            state.others.push(user.clone());
            user
        });
        seed_one(&mut state, user, name);
    }

    pub(crate) fn delete_outside(&self, name: &str) {
        self.change(name, |workspace| {
            let request = workspace.latest().followed_by(Transition::Delete);
            workspace.push_build(request);
            workspace.settle();
        });
    }

    pub(crate) fn rename_outside(&self, name: &str, new_name: &str) {
        self.change(name, |workspace| new_name.clone_into(&mut workspace.name));
    }

    /// Sets the newest build's words, known or not, and ends its script.
    pub(crate) fn set_build(&self, name: &str, job_status: &str, status: &str) {
        self.change(name, |workspace| {
            workspace.script.clear();
            let build = workspace.latest_mut();
            job_status.clone_into(&mut build.job_status);
            status.clone_into(&mut build.status);
        });
    }
}

/// Agents and what they tell.
impl CoderStub {
    /// Sets the agent's words, known or not, and ends the script.
    pub(crate) fn set_agent(&self, name: &str, status: &str, lifecycle: &str) {
        self.change(name, |workspace| {
            assert!(workspace.latest().agent.is_some(), "{} has no agent now", workspace.name);
            workspace.script.clear();
            workspace.agent_words(status, lifecycle);
        });
    }

    /// The agent is killed: its life-cycle word stays, as on a real server.
    pub(crate) fn disconnect(&self, name: &str) {
        self.set_agent(name, "disconnected", "ready");
    }

    pub(crate) fn post_app_status(&self, name: &str, state: &str, message: &str) {
        self.change(name, |workspace| {
            workspace.report(state, message);
            workspace.agent_api.reported(state);
        });
    }

    /// A report that the agent's own app contradicts, as of a process that died.
    pub(crate) fn post_app_status_of_the_dead(&self, name: &str, state: &str, message: &str) {
        self.change(name, |workspace| workspace.report(state, message));
    }

    pub(crate) fn set_metadata(&self, name: &str, key: &str, value: &str) {
        self.change(name, |workspace| {
            workspace.metadata.retain(|item| item.key != key);
            let item = AgentItem { key: key.to_owned(), value: value.to_owned(), collected_at: Utc::now() };
            workspace.metadata.push(item);
        });
    }

    pub(crate) fn set_resource_metadata(&self, name: &str, key: &str, value: &str) {
        self.resource_item(name, ResourceItem { key: key.into(), value: value.into(), sensitive: false });
    }

    /// Resource metadata marked sensitive, which Coder sends in clear all the same.
    pub(crate) fn set_sensitive_metadata(&self, name: &str, key: &str, value: &str) {
        self.resource_item(name, ResourceItem { key: key.into(), value: value.into(), sensitive: true });
    }

    /// What agents made from now on do with what they are told.
    pub(crate) fn set_script_of_new_agents(&self, script: AgentScript) {
        self.lock().agent_script = script;
    }

    pub(crate) fn set_agent_script(&self, name: &str, script: AgentScript) {
        self.change(name, |workspace| workspace.agent_api.script = script);
    }

    /// The working agent ends with this message.
    pub(crate) fn agent_finishes(&self, name: &str, message: &str) {
        self.change(name, |workspace| workspace.agent_api.finish(message));
    }

    fn resource_item(&self, name: &str, item: ResourceItem) {
        self.change(name, |workspace| {
            workspace.resource_metadata.retain(|old| old.key != item.key);
            workspace.resource_metadata.push(item);
        });
    }
}

/// What happened.
impl CoderStub {
    /// All workspaces ever made, in that order.
    pub(crate) fn workspaces(&self) -> Vec<WorkspaceSummary> {
        let summary = |workspace: &Workspace| WorkspaceSummary {
            name: workspace.name.clone(),
            owner: workspace.owner.username.clone(),
            status: workspace.latest().status.clone(),
            builds: workspace.builds.len(),
        };
        self.lock().workspaces.iter().map(summary).collect()
    }

    /// A workspace as the API would show it, without a call and without letting time pass.
    pub(crate) fn workspace(&self, name: &str) -> Value {
        let state = self.lock();
        shapes::workspace(&state, &state.workspaces[place(&state, name)])
    }

    /// What the app inside a workspace received through the proxy.
    pub(crate) fn app_requests(&self, name: &str) -> Vec<AppRequest> {
        self.change(name, |workspace| workspace.agent_api.received.clone())
    }

    fn change<R>(&self, name: &str, change: impl FnOnce(&mut Workspace) -> R) -> R {
        let mut state = self.lock();
        let place = place(&state, name);
        change(&mut state.workspaces[place])
    }
}

/// Where the newest workspace of this name is; a live one comes before a deleted one.
fn place(state: &State, name: &str) -> usize {
    let newest = |deleted: bool| {
        state.workspaces.iter().rposition(|workspace| workspace.deleted == deleted && workspace.name == name)
    };
    newest(false).or_else(|| newest(true)).unwrap_or_else(|| panic!("the stub has no workspace {name:?}"))
}

fn seed_one(state: &mut State, owner: User, name: &str) {
    let template = state.templates.first().expect("the stub starts with a template");
    let values = [("AI Prompt", "seeded"), ("project", "alpha"), ("role", "coder")];
    let new = NewWorkspace {
        name: name.to_owned(),
        owner,
        template_id: template.id,
        version_id: template.active().id,
        preset_id: None,
        values: values.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
    };
    let id = workspaces::add(state, new);
    if let Some(workspace) = state.workspace_mut(id) {
        workspace.settle();
    }
}

fn times(workspace: &mut Workspace) -> Vec<&mut DateTime<Utc>> {
    let mut times = vec![&mut workspace.created_at];
    for build in &mut workspace.builds {
        times.push(&mut build.created_at);
        times.extend(build.started_at.iter_mut());
        times.extend(build.completed_at.iter_mut());
        times.extend(build.canceled_at.iter_mut());
        if let Some(agent) = &mut build.agent {
            times.push(&mut agent.created_at);
            times.extend(agent.connected_at.iter_mut());
            times.extend(agent.disconnected_at.iter_mut());
            times.extend(agent.ready_at.iter_mut());
            times.extend(agent.app_statuses.iter_mut().map(|status| &mut status.created_at));
        }
    }
    times.extend(workspace.app_status.iter_mut().map(|status| &mut status.created_at));
    times.extend(workspace.metadata.iter_mut().map(|item| &mut item.collected_at));
    times
}
