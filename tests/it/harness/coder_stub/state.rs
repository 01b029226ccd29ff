//! The stub's memory: users, templates, workspaces, builds and agents.

use super::agent_api::{AgentApi, AgentScript};
use super::faults::Fault;
use super::script::Step;
use super::spec::{Behaviour, Pace, ParamSpec, TemplateSpec};
use crate::harness::rule::RuleBook;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

pub(super) struct State {
    pub(super) url: String,
    pub(super) token: String,
    pub(super) me: User,
    pub(super) others: Vec<User>,
    pub(super) organization_id: Uuid,
    pub(super) deployment_id: Uuid,
    pub(super) templates: Vec<Template>,
    pub(super) workspaces: Vec<Workspace>,
    pub(super) pace: Pace,
    /// What new agents do with what they are told.
    pub(super) agent_script: AgentScript,
    pub(super) faults: RuleBook<Fault>,
    pub(super) calls: BTreeMap<String, usize>,
}

#[derive(Clone)]
pub(super) struct User {
    pub(super) id: Uuid,
    pub(super) username: String,
}

pub(super) struct Template {
    pub(super) id: Uuid,
    pub(super) created_at: DateTime<Utc>,
    pub(super) name: String,
    pub(super) display_name: String,
    pub(super) behaviour: Behaviour,
    /// The last one is active.
    pub(super) versions: Vec<Version>,
}

pub(super) struct Version {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) params: Vec<ParamSpec>,
    pub(super) presets: Vec<Preset>,
}

pub(super) struct Preset {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) values: Vec<(String, String)>,
}

pub(super) struct Workspace {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) owner: User,
    pub(super) template_id: Uuid,
    pub(super) behaviour: Behaviour,
    pub(super) created_at: DateTime<Utc>,
    pub(super) deleted: bool,
    /// Oldest first, never empty.
    pub(super) builds: Vec<Build>,
    pub(super) script: VecDeque<Step>,
    /// Outlives builds, as on a real server.
    pub(super) app_status: Option<AppStatus>,
    pub(super) metadata: Vec<AgentItem>,
    pub(super) resource_metadata: Vec<ResourceItem>,
    pub(super) agent_api: AgentApi,
}

pub(super) struct Build {
    pub(super) id: Uuid,
    pub(super) job_id: Uuid,
    pub(super) number: usize,
    pub(super) transition: Transition,
    pub(super) version_id: Uuid,
    pub(super) preset_id: Option<Uuid>,
    pub(super) values: Vec<(String, String)>,
    /// Words as sent, so that a test can set one that does not exist.
    pub(super) job_status: String,
    pub(super) status: String,
    pub(super) error: Option<String>,
    pub(super) created_at: DateTime<Utc>,
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) completed_at: Option<DateTime<Utc>>,
    pub(super) canceled_at: Option<DateTime<Utc>>,
    pub(super) provisioned: bool,
    pub(super) agent: Option<Agent>,
    pub(super) logs: Vec<LogLine>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    Start,
    Stop,
    Delete,
}

pub(super) struct Agent {
    pub(super) id: Uuid,
    pub(super) resource_id: Uuid,
    pub(super) app_id: Uuid,
    pub(super) status: String,
    pub(super) lifecycle: String,
    pub(super) app_health: &'static str,
    pub(super) created_at: DateTime<Utc>,
    pub(super) connected_at: Option<DateTime<Utc>>,
    pub(super) disconnected_at: Option<DateTime<Utc>>,
    pub(super) ready_at: Option<DateTime<Utc>>,
    /// Newest first.
    pub(super) app_statuses: Vec<AppStatus>,
}

#[derive(Clone)]
pub(super) struct AppStatus {
    pub(super) id: Uuid,
    pub(super) agent_id: Uuid,
    pub(super) app_id: Uuid,
    pub(super) created_at: DateTime<Utc>,
    pub(super) state: String,
    pub(super) message: String,
}

pub(super) struct AgentItem {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) collected_at: DateTime<Utc>,
}

pub(super) struct ResourceItem {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) sensitive: bool,
}

pub(super) struct LogLine {
    pub(super) id: usize,
    pub(super) created_at: DateTime<Utc>,
    pub(super) level: &'static str,
    pub(super) stage: &'static str,
    pub(super) output: String,
}

impl State {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            url: String::new(),
            token: fresh_token(),
            me: User::new("fleetadmin"),
            others: Vec::new(),
            organization_id: Uuid::new_v4(),
            deployment_id: Uuid::new_v4(),
            templates: Vec::new(),
            workspaces: Vec::new(),
            pace,
            agent_script: AgentScript::Answer,
            faults: RuleBook::new(),
            calls: BTreeMap::new(),
        }
    }

    pub(super) fn template_add(&mut self, spec: TemplateSpec) {
        let version = Version::new(&spec);
        let TemplateSpec { name, display_name, behaviour, .. } = spec;
        if let Some(template) = self.templates.iter_mut().find(|template| template.name == name) {
            template.behaviour = behaviour;
            template.display_name = display_name;
            template.versions.push(version);
            return;
        }
        let (id, created_at) = (Uuid::new_v4(), Utc::now());
        self.templates.push(Template {
            id,
            created_at,
            name,
            display_name,
            behaviour,
            versions: vec![version],
        });
    }

    pub(super) fn template(&self, id: Uuid) -> Option<&Template> {
        self.templates.iter().find(|template| template.id == id)
    }

    pub(super) fn version(&self, id: Uuid) -> Option<(&Template, &Version)> {
        self.templates
            .iter()
            .flat_map(|template| template.versions.iter().map(move |version| (template, version)))
            .find(|(_, version)| version.id == id)
    }

    pub(super) fn workspace(&self, id: Uuid) -> Option<&Workspace> {
        self.workspaces.iter().find(|workspace| workspace.id == id)
    }

    pub(super) fn workspace_mut(&mut self, id: Uuid) -> Option<&mut Workspace> {
        self.workspaces.iter_mut().find(|workspace| workspace.id == id)
    }

    /// The workspace a build belongs to, and the build's place in it.
    pub(super) fn build(&self, id: Uuid) -> Option<(&Workspace, &Build)> {
        self.workspaces
            .iter()
            .flat_map(|workspace| workspace.builds.iter().map(move |build| (workspace, build)))
            .find(|(_, build)| build.id == id)
    }

    /// `me` is the token's user.
    pub(super) fn user(&self, name: &str) -> Option<&User> {
        if name == "me" {
            return Some(&self.me);
        }
        std::iter::once(&self.me).chain(&self.others).find(|user| user.username.eq_ignore_ascii_case(name))
    }

    /// A live workspace by owner and name; names ignore case.
    pub(super) fn workspace_named(&self, owner: Uuid, name: &str) -> Option<&Workspace> {
        self.workspaces.iter().rev().find(|workspace| !workspace.deleted && workspace.is(owner, name))
    }
}

impl User {
    pub(super) fn new(username: &str) -> Self {
        Self { id: Uuid::new_v4(), username: username.to_owned() }
    }
}

impl Template {
    pub(super) fn active(&self) -> &Version {
        self.versions.last().expect("a template has at least one version")
    }
}

impl Version {
    fn new(spec: &TemplateSpec) -> Self {
        let presets = spec.presets.iter().map(|preset| Preset {
            id: Uuid::new_v4(),
            name: preset.name.clone(),
            values: preset.values.clone(),
        });
        let id = Uuid::new_v4();
        Self {
            id,
            name: format!("stub_{}", &id.simple().to_string()[..8]),
            params: spec.params.clone(),
            presets: presets.collect(),
        }
    }
}

impl Workspace {
    pub(super) fn latest(&self) -> &Build {
        self.builds.last().expect("a workspace has at least one build")
    }

    pub(super) fn latest_mut(&mut self) -> &mut Build {
        self.builds.last_mut().expect("a workspace has at least one build")
    }

    pub(super) fn is(&self, owner: Uuid, name: &str) -> bool {
        self.owner.id == owner && self.name.eq_ignore_ascii_case(name)
    }
}

impl Transition {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Delete => "delete",
        }
    }
}

/// A token of the shape Coder checks before it looks one up: ten characters, a dash, twenty-two more.
pub(super) fn fresh_token() -> String {
    let digits = Uuid::new_v4().simple().to_string();
    format!("{}-{}", &digits[..10], &digits[10..])
}
