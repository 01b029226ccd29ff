//! Templates: one per project, with the parameters of an agent and one preset per role.

use std::path::Path;

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::id::named;
use super::parameters::value_of;
use crate::coder::wire::ParameterValue;
use crate::domain::name::name_key;
use crate::domain::project::Project;
use crate::domain::role::Role;

/// The project of the directory that a caller works in.
const HERE: &str = "here";
pub(crate) const PROMPT: &str = "AI Prompt";
pub(crate) const SYSTEM_PROMPT: &str = "system_prompt";
pub(crate) const DIRECTORY: &str = "fleet_mcp_directory";
pub(crate) const ROLE: &str = "fleet_mcp_role";
const PROJECT: &str = "fleet_mcp_project";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) id: Uuid,
    /// Derived from the content, so that a changed project file is a new version.
    pub(crate) version_id: Uuid,
    pub(crate) name: String,
    pub(crate) display_name: String,
    pub(crate) description: String,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) presets: Vec<Preset>,
    /// The variant of the project that describes the template.
    own: Variant,
    /// The variants of the other projects that use it.
    others: Vec<Variant>,
}

/// The settings of one project, where several projects share a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    project: String,
    pub(crate) source: Source,
    pub(crate) engine: Option<String>,
}

/// The source of the agent's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Empty,
    Clone { repo: String, branch: Option<String> },
    Here,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// None: a value is required.
    pub(crate) default: Option<String>,
    pub(crate) is_mutable: bool,
    pub(crate) rule: Rule,
}

/// Which values a parameter accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    Any,
    OneOf(Vec<String>),
    /// Empty, or a web address.
    WebAddress,
}

/// `Rule::WebAddress` as the regular expression of a template.
pub(crate) const WEB_ADDRESS: &str = "^(https?://[^ ]+)?$";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preset {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) is_default: bool,
    pub(crate) values: Vec<ParameterValue>,
}

/// The inputs of all templates.
#[derive(Debug, Clone)]
pub(crate) struct TemplateInputs<'a> {
    pub(crate) deployment_id: Uuid,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) projects: Vec<Project>,
    pub(crate) roles: Vec<Role>,
    pub(crate) here: Option<&'a Path>,
}

impl TemplateInputs<'_> {
    /// By name. The first project with a template describes it; each project has its own source and engine.
    pub(crate) fn templates(&self) -> Vec<Template> {
        let mut templates: Vec<Template> = Vec::new();
        for project in &self.projects {
            let is_new = templates.iter().all(|known| name_key(&known.name) != name_key(&project.template));
            if is_new {
                templates.push(self.template(project));
            }
        }
        templates.sort_by(|one, other| one.name.cmp(&other.name));
        templates
    }

    fn template(&self, project: &Project) -> Template {
        let id = named(self.deployment_id, &format!("template {}", project.template));
        let (own, others) = (Variant::of(project), self.others_of(project));
        let takes_directory = [&own].into_iter().chain(&others).any(|variant| variant.source == Source::Here);
        let parameters = self.parameters(project, takes_directory);
        let version_id = named(id, &self.digest(project, &parameters, &others));
        Template {
            id,
            version_id,
            name: project.template.clone(),
            display_name: project.display_name.clone(),
            description: project.description.clone(),
            created_at: self.created_at,
            parameters,
            presets: self.roles.iter().map(|role| preset(version_id, project, role)).collect(),
            own,
            others,
        }
    }

    fn others_of(&self, first: &Project) -> Vec<Variant> {
        let shares = |project: &&Project| name_key(&project.template) == name_key(&first.template);
        let is_other = |project: &&Project| name_key(&project.name) != name_key(&first.name);
        self.projects.iter().filter(shares).filter(is_other).map(Variant::of).collect()
    }

    fn parameters(&self, project: &Project, takes_directory: bool) -> Vec<Parameter> {
        let mut parameters = vec![
            optional(PROMPT, "The first message to the agent"),
            optional(SYSTEM_PROMPT, "The system prompt of the agent"),
            fixed("fleet_mcp_agent_name", "The agent's name in the fleet"),
            self.role(project),
            fixed(PROJECT, "The agent's project in the fleet"),
            address("fleet_mcp_url", "The address of the fleet for the agent"),
            address("fleet_mcp_pull_request_url", "The pull request the agent works on"),
        ];
        if takes_directory {
            let default = self.here.map(|path| path.display().to_string());
            let description = "The directory whose repository the agent works on";
            let rule = Rule::Any;
            parameters.push(Parameter { name: DIRECTORY, description, default, is_mutable: false, rule });
        }
        parameters
    }

    /// Accepts the known roles; a project whose own role is unknown accepts any.
    fn role(&self, project: &Project) -> Parameter {
        let description = "The agent's role in the fleet";
        let ids: Vec<String> = self.roles.iter().map(|role| role.id.clone()).collect();
        let own = ids.iter().find(|id| name_key(id) == name_key(&project.default_role)).cloned();
        match own {
            Some(default) => {
                Parameter { default: Some(default), rule: Rule::OneOf(ids), ..fixed(ROLE, description) }
            }
            None => fixed(ROLE, description),
        }
    }

    /// Two versions are the same if nothing that affects a workspace differs.
    fn digest(&self, project: &Project, parameters: &[Parameter], others: &[Variant]) -> String {
        let roles: Vec<_> =
            self.roles.iter().map(|role| (&role.id, &role.prompt, &role.description)).collect();
        let mut content = format!(
            "{:?}",
            (&project.repo, &project.branch, &project.engine, &project.default_role, parameters, roles)
        );
        // Must not change the version of a template with one project: workspaces are pinned to versions.
        if !others.is_empty() {
            content.push_str(&format!("{others:?}"));
        }
        Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Template {
    pub(crate) fn version_name(&self) -> String {
        let id = self.version_id.simple().to_string();
        format!("embedded-{}", id.get(..8).unwrap_or(&id))
    }

    pub(crate) fn preset(&self, id: Uuid) -> Option<&Preset> {
        self.presets.iter().find(|preset| preset.id == id)
    }

    /// The variant of the project that these values name, by default the first project's.
    pub(crate) fn variant(&self, values: &[ParameterValue]) -> &Variant {
        let project = value_of(values, PROJECT).map(name_key);
        let named = self.others.iter().find(|other| Some(name_key(&other.project)) == project);
        named.unwrap_or(&self.own)
    }
}

impl Variant {
    fn of(project: &Project) -> Self {
        Self { project: project.name.clone(), source: source_of(project), engine: project.engine.clone() }
    }
}

fn source_of(project: &Project) -> Source {
    match &project.repo {
        Some(repo) => Source::Clone { repo: repo.clone(), branch: project.branch.clone() },
        None if name_key(&project.template) == HERE => Source::Here,
        None => Source::Empty,
    }
}

fn optional(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, description, default: Some(String::new()), is_mutable: true, rule: Rule::Any }
}

fn address(name: &'static str, description: &'static str) -> Parameter {
    Parameter { rule: Rule::WebAddress, ..optional(name, description) }
}

fn fixed(name: &'static str, description: &'static str) -> Parameter {
    Parameter { is_mutable: false, ..optional(name, description) }
}

fn preset(version_id: Uuid, project: &Project, role: &Role) -> Preset {
    let value = |name: &str, value: &str| ParameterValue { name: name.to_owned(), value: value.to_owned() };
    Preset {
        id: named(version_id, &role.id),
        name: role.id.clone(),
        description: role.description.clone(),
        is_default: name_key(&role.id) == name_key(&project.default_role),
        values: vec![value(ROLE, &role.id), value(SYSTEM_PROMPT, &role.prompt)],
    }
}
