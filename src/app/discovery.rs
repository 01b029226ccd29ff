//! Discovers projects and roles: joins the files with the deployment's templates.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use moka::future::Cache;
use uuid::Uuid;

use super::Fleet;
use super::caller::{AuditedCall, Caller};
use super::catalog::Files;
use super::error::Error;
use crate::coder::wire::{Organization, Preset, RichParameter, Template};
use crate::coder::{CoderError, ErrorKind};
use crate::domain::access::{Action, Target};
use crate::domain::budget::Budget;
use crate::domain::name::name_key;
use crate::domain::project::Project;
use crate::domain::role::{DEFAULT_ROLE, Role, RoleKind};

/// Names of the template parameter that carries the spec to the agent.
const PROMPT_PARAMETERS: [&str; 2] = ["AI Prompt", "ai_prompt"];
/// Template versions are immutable, so that their inputs are read once.
const KNOWN_VERSIONS: u64 = 2_000;

/// A project with a template in this deployment.
#[derive(Debug, Clone)]
pub struct ProjectInfo {
    pub project: Project,
    pub template_id: Uuid,
    pub template_name: String,
    pub(super) organization: Uuid,
    pub(super) version: Uuid,
    pub(super) declared: Arc<TemplateInputs>,
}

/// Parameters and presets of a template version.
#[derive(Debug, Default)]
pub(super) struct TemplateInputs {
    pub(super) parameters: Vec<RichParameter>,
    pub(super) presets: Vec<Preset>,
}

#[derive(Debug, Clone)]
pub struct RoleInfo {
    pub role: Role,
    pub is_default: bool,
}

#[derive(Debug, Clone)]
pub struct RoleList {
    pub roles: Vec<RoleInfo>,
    pub project: Option<String>,
}

/// The projects found by the last discovery.
#[derive(Debug, Default)]
pub(super) struct DiscoveredProjects {
    projects: Vec<ProjectInfo>,
    by_template: HashMap<Uuid, usize>,
}

#[derive(Debug)]
pub(super) struct Discovery {
    found: ArcSwapOption<DiscoveredProjects>,
    versions: Cache<Uuid, Arc<TemplateInputs>>,
}

impl Default for Discovery {
    fn default() -> Self {
        Self { found: ArcSwapOption::default(), versions: Cache::new(KNOWN_VERSIONS) }
    }
}

impl ProjectInfo {
    pub(super) fn prompt_parameter(&self) -> Option<&RichParameter> {
        self.declared.prompt_parameter()
    }

    pub(super) fn preset(&self, name: &str) -> Option<&Preset> {
        self.declared.presets.iter().find(|preset| name_key(&preset.name) == name_key(name))
    }
}

impl TemplateInputs {
    fn prompt_parameter(&self) -> Option<&RichParameter> {
        PROMPT_PARAMETERS
            .iter()
            .find_map(|name| self.parameters.iter().find(|parameter| parameter.name == *name))
    }
}

impl DiscoveredProjects {
    pub(super) fn project(&self, name: &str) -> Option<&ProjectInfo> {
        let key = name_key(name);
        let by_name = self.projects.iter().find(|info| name_key(&info.project.name) == key);
        by_name.or_else(|| self.projects.iter().find(|info| name_key(&info.project.display_name) == key))
    }

    /// The project of a workspace with this template, if any.
    pub(super) fn of_template(&self, template: Uuid) -> Option<&ProjectInfo> {
        self.projects.get(*self.by_template.get(&template)?)
    }
}

impl Fleet {
    pub async fn project_list(&self, caller: &Caller) -> Result<Vec<ProjectInfo>, Error> {
        let call = AuditedCall { caller, action: Action::ProjectList, target: None };
        self.permit(&call, Target::Fleet).await?;
        Ok(self.discovered()?.projects.clone())
    }

    /// One message per project file that is ignored.
    pub fn project_problems(&self) -> Vec<String> {
        self.0.catalog.files().project_problems.clone()
    }

    pub async fn role_list(&self, caller: &Caller, project: Option<&str>) -> Result<RoleList, Error> {
        let call = AuditedCall { caller, action: Action::RoleList, target: project.map(str::to_owned) };
        self.permit(&call, Target::Fleet).await?;
        let files = self.0.catalog.files();
        let Some(name) = project else {
            let roles = files.roles.values().map(|role| role_info(role.clone(), DEFAULT_ROLE)).collect();
            return Ok(RoleList { roles, project: None });
        };
        let info = self.project_named(name).await?;
        let roles = roles_of(&files, &info);
        Ok(RoleList { roles, project: Some(info.project.name) })
    }

    /// The last discovered projects; an error before the first successful discovery.
    pub(super) fn discovered(&self) -> Result<Arc<DiscoveredProjects>, Error> {
        let found = self.0.discovery.found.load_full();
        found.ok_or_else(|| self.health().now().unavailable("the list of templates has not been read yet"))
    }

    /// The project of that name; an unknown name triggers one more discovery, since templates come and go.
    pub(super) async fn project_named(&self, name: &str) -> Result<ProjectInfo, Error> {
        if let Some(info) = self.discovered()?.project(name) {
            return Ok(info.clone());
        }
        if self.discovery_refresh().await.is_ok()
            && let Some(info) = self.discovered()?.project(name)
        {
            return Ok(info.clone());
        }
        Err(self.no_project(name))
    }

    fn no_project(&self, name: &str) -> Error {
        match self.discovered() {
            Ok(found) => {
                let known: Vec<String> =
                    found.projects.iter().map(|info| info.project.name.clone()).collect();
                Error::CatalogNotFound { what: "project", name: name.to_owned(), known: listed(&known) }
            }
            Err(error) => error,
        }
    }

    /// The project with its current file and template: both may be newer than the last discovery.
    pub(super) async fn project_refreshed(
        &self,
        known: ProjectInfo,
    ) -> Result<Result<ProjectInfo, CoderError>, Error> {
        match self.project_lookup(&known).await {
            // The template was deleted or renamed: only a full discovery shows what became of the project.
            Err(error) if is_template_missing(&error) => {
                if let Err(error) = self.discovery_refresh().await {
                    return Ok(Err(error));
                }
                let found = self.discovered()?;
                let renewed = found.project(&known.project.name).cloned();
                renewed.map(Ok).ok_or_else(|| self.no_project(&known.project.name))
            }
            looked_up => Ok(looked_up),
        }
    }

    async fn project_lookup(&self, known: &ProjectInfo) -> Result<ProjectInfo, CoderError> {
        let template = self.coder().template_by_name(known.organization, &known.template_name).await?;
        let declared = self.declared(template.active_version_id).await?;
        let (template_id, version) = (template.id, template.active_version_id);
        let project = self.project_file_now(&known.project);
        Ok(ProjectInfo { project, template_id, version, declared, ..known.clone() })
    }

    /// The project with its current file, without a request to Coder.
    pub(super) fn project_reread(&self, known: ProjectInfo) -> ProjectInfo {
        ProjectInfo { project: self.project_file_now(&known.project), ..known }
    }

    /// The project of the current files; a project without a file is unchanged.
    fn project_file_now(&self, known: &Project) -> Project {
        self.0.catalog.reload();
        let files = self.0.catalog.files();
        let is_it = |project: &&Project| {
            (name_key(&project.name), name_key(&project.template))
                == (name_key(&known.name), name_key(&known.template))
        };
        files.projects.values().find(is_it).unwrap_or(known).clone()
    }

    /// `project_refreshed` with a deadline: without a response in time the last discovery counts, and the version is
    /// looked up again before the build.
    pub(super) async fn project_refreshed_in_time(&self, known: ProjectInfo) -> Result<ProjectInfo, Error> {
        if !self.health().now().is_reachable() {
            return Ok(known);
        }
        match tokio::time::timeout(self.limits().version_lookup, self.project_refreshed(known.clone())).await
        {
            Ok(renewed) => Ok(renewed?.unwrap_or(known)),
            Err(_) => Ok(known),
        }
    }

    /// The role of that name for agents of this project: from a file, a preset, or both.
    pub(super) fn role_of_project(&self, info: &ProjectInfo, name: &str) -> Result<Role, Error> {
        let roles = roles_of(&self.0.catalog.files(), info);
        let key = name_key(name);
        let known: Vec<String> = roles.iter().map(|info| info.role.id.clone()).collect();
        // An id takes precedence over a name, as with role files: rights follow the file that has the name.
        let by_id = roles.iter().find(|info| name_key(&info.role.id) == key);
        let found = by_id.or_else(|| roles.iter().find(|info| name_key(&info.role.name) == key));
        found.map(|info| info.role.clone()).ok_or_else(|| Error::CatalogNotFound {
            what: "role",
            name: name.to_owned(),
            known: listed(&known),
        })
    }

    /// The kind of a role that has a file.
    pub(super) fn role_kind(&self, name: &str) -> Result<RoleKind, Error> {
        let files = self.0.catalog.files();
        let known: Vec<String> = files.roles.values().map(|role| role.id.clone()).collect();
        let role = files.role(name).map(|role| role.kind);
        role.ok_or_else(|| Error::CatalogNotFound {
            what: "role",
            name: name.to_owned(),
            known: listed(&known),
        })
    }

    /// A role that is only a preset has no file and so is a coding role.
    pub(super) fn role_kind_or_coding(&self, name: &str) -> RoleKind {
        self.0.catalog.files().role(name).map_or(RoleKind::Coding, |role| role.kind)
    }

    /// Runs a discovery of the deployment's templates.
    pub(super) async fn discovery_refresh(&self) -> Result<(), CoderError> {
        self.0.catalog.reload();
        let files = self.0.catalog.files();
        let templates = self.coder().templates().await?;
        let organizations =
            if has_organization(&files) { self.coder().organizations().await? } else { Vec::new() };
        let (mut found, mut limited) = (DiscoveredProjects::default(), None);
        for template in &templates {
            match self.projects_of(template, &files, &organizations).await {
                Ok(projects) => found.projects.extend(projects),
                Err(error) if affects_all_requests(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!(
                        template.name, %error,
                        "a template could not be read; its last known version is used"
                    );
                    found.projects.extend(self.last_known(template.id));
                    if matches!(error.kind(), ErrorKind::RateLimited { .. }) {
                        limited = Some(error);
                    }
                }
            }
        }
        // Fail before the first complete discovery: with a part of the projects the others would look absent.
        if let Some(error) = limited.take_if(|_| self.discovered().is_err()) {
            return Err(error);
        }
        found.projects.sort_by_key(|info| name_key(&info.project.name));
        found.by_template =
            found.projects.iter().enumerate().rev().map(|(at, info)| (info.template_id, at)).collect();
        self.0.discovery.found.store(Some(Arc::new(found)));
        // The projects are usable at once; the skipped templates are read again when the rate limit ends.
        limited.map_or(Ok(()), Err)
    }

    /// The projects of one template: those of its files, else an implied project if the template qualifies.
    async fn projects_of(
        &self,
        template: &Template,
        files: &Files,
        organizations: &[Organization],
    ) -> Result<Vec<ProjectInfo>, CoderError> {
        let is_its = |project: &&Project| name_key(&project.template) == name_key(&template.name);
        let own = files.projects.values().filter(is_its).filter(|p| owns(p, template, organizations));
        let mut projects: Vec<Project> = own.cloned().collect();
        if projects.is_empty() && template.display_name.is_empty() {
            return Ok(Vec::new());
        }
        let declared = self.declared(template.active_version_id).await?;
        if projects.is_empty() && declared.prompt_parameter().is_some() {
            projects.push(implied_project(template));
        }
        let info = |project| ProjectInfo {
            project,
            template_id: template.id,
            template_name: template.name.clone(),
            organization: template.organization_id,
            version: template.active_version_id,
            declared: Arc::clone(&declared),
        };
        Ok(projects.into_iter().map(info).collect())
    }

    fn last_known(&self, template: Uuid) -> Vec<ProjectInfo> {
        let known = self.0.discovery.found.load_full();
        let projects = known.iter().flat_map(|found| &found.projects);
        projects.filter(|info| info.template_id == template).cloned().collect()
    }

    /// The name of a preset in that template version; none if there is no such preset.
    pub(super) async fn preset_name(
        &self,
        version: Uuid,
        preset: Uuid,
    ) -> Result<Option<String>, CoderError> {
        let declared = self.declared(version).await?;
        let found = declared.presets.iter().find(|known| known.id == preset);
        Ok(found.map(|preset| preset.name.clone()))
    }

    /// The name of the parameter that carries the spec in that template version.
    pub(super) async fn prompt_name(&self, version: Uuid) -> Result<Option<String>, CoderError> {
        let declared = self.declared(version).await?;
        Ok(declared.prompt_parameter().map(|prompt| prompt.name.clone()))
    }

    async fn declared(&self, version: Uuid) -> Result<Arc<TemplateInputs>, CoderError> {
        if let Some(known) = self.0.discovery.versions.get(&version).await {
            return Ok(known);
        }
        let parameters = self.coder().rich_parameters(version).await?;
        let presets = self.coder().presets(version).await?;
        let declared = Arc::new(TemplateInputs { parameters, presets });
        self.0.discovery.versions.insert(version, Arc::clone(&declared)).await;
        Ok(declared)
    }
}

/// Coder shows no such template to this token.
fn is_template_missing(error: &CoderError) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Gone | ErrorKind::Forbidden)
}

/// An error that every other request would have too.
fn affects_all_requests(error: &CoderError) -> bool {
    matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Unreachable | ErrorKind::Timeout)
}

fn has_organization(files: &Files) -> bool {
    files.projects.values().any(|project| project.organization.is_some())
}

fn owns(project: &Project, template: &Template, organizations: &[Organization]) -> bool {
    let Some(wanted) = &project.organization else { return true };
    let owner = organizations.iter().find(|organization| organization.id == template.organization_id);
    owner.is_some_and(|owner| name_key(&owner.name) == name_key(wanted))
}

fn implied_project(template: &Template) -> Project {
    Project {
        name: template.name.clone(),
        display_name: template.display_name.clone(),
        description: template.description.clone(),
        template: template.name.clone(),
        organization: None,
        app_slug: None,
        default_role: DEFAULT_ROLE.to_owned(),
        repo: None,
        branch: None,
        engine: None,
        container: None,
        agentless: false,
        parameters: std::collections::BTreeMap::new(),
        forge: None,
    }
}

fn roles_of(files: &Files, info: &ProjectInfo) -> Vec<RoleInfo> {
    let default = &info.project.default_role;
    let mut roles: Vec<RoleInfo> =
        files.roles.values().map(|role| role_info(role.clone(), default)).collect();
    for preset in &info.declared.presets {
        if files.role(&preset.name).is_none() {
            roles.push(role_info(preset_role(preset), default));
        }
    }
    roles.sort_by(|a, b| a.role.id.cmp(&b.role.id));
    roles
}

fn role_info(role: Role, default: &str) -> RoleInfo {
    let is_default = name_key(&role.id) == name_key(default);
    RoleInfo { role, is_default }
}

fn preset_role(preset: &Preset) -> Role {
    Role {
        id: preset.name.clone(),
        name: preset.name.clone(),
        display_name: preset.name.clone(),
        description: preset.description.clone(),
        kind: RoleKind::Coding,
        budget: Budget::default(),
        prompt: String::new(),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
