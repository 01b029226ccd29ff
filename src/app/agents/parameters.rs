//! Builds the create request of a workspace: the preset and the parameters that the template version declares.

use crate::app::discovery::ProjectInfo;
use crate::app::error::Error;
use crate::app::here;
use crate::app::provision::prompt_of;
use crate::coder::wire::{CreateWorkspace, ParameterValue, Preset, RichParameter};
use crate::domain::agent::Agent;
use crate::domain::name::name_key;
use crate::domain::role::Role;

/// The inputs of a create request.
#[derive(Debug)]
pub(in crate::app) struct Blueprint<'a> {
    pub(in crate::app) agent: &'a Agent,
    pub(in crate::app) info: &'a ProjectInfo,
    pub(in crate::app) role: &'a Role,
    pub(in crate::app) public_url: Option<&'a str>,
}

impl Blueprint<'_> {
    /// The request, or an error for a required parameter without a value.
    pub(in crate::app) fn request(&self) -> Result<CreateWorkspace, Error> {
        let preset = self.preset();
        let values =
            self.info.declared.parameters.iter().filter_map(|parameter| self.value(parameter, preset));
        let request = CreateWorkspace {
            name: self.agent.name.to_string(),
            template_version_id: self.info.version,
            rich_parameter_values: values.collect(),
            template_version_preset_id: preset.map(|preset| preset.id),
        };
        self.check_required(&request, preset)?;
        Ok(request)
    }

    fn preset(&self) -> Option<&Preset> {
        let presets = &self.info.declared.presets;
        let named = self.info.preset(&self.role.id);
        let is_default_role = name_key(&self.role.id) == name_key(&self.info.project.default_role);
        // An agent of another role never gets the default role's preset.
        named.or_else(|| presets.iter().find(|preset| preset.default && is_default_role))
    }

    fn value(&self, parameter: &RichParameter, preset: Option<&Preset>) -> Option<ParameterValue> {
        let value = self.derived_value(parameter, preset).or_else(|| {
            let configured = &self.info.project.parameters;
            configured
                .iter()
                .find(|(key, _)| name_key(key) == name_key(&parameter.name))
                .map(|(_, value)| value.clone())
        })?;
        Some(ParameterValue { name: parameter.name.clone(), value })
    }

    /// Values that the fleet derives from a parameter's name.
    fn derived_value(&self, parameter: &RichParameter, preset: Option<&Preset>) -> Option<String> {
        let agent = self.agent;
        if self.info.prompt_parameter().is_some_and(|prompt| prompt.name == parameter.name) {
            return Some(agent.first_message());
        }
        match parameter.name.as_str() {
            "system_prompt" if !is_set(preset, parameter) && !self.role.prompt.is_empty() => {
                Some(prompt_of(self.role))
            }
            "fleet_mcp_agent_name" => Some(agent.name.to_string()),
            "fleet_mcp_role" => Some(agent.role.clone()),
            "fleet_mcp_project" => Some(agent.project.clone()),
            "fleet_mcp_agent_spec" => Some(agent.spec.clone()),
            "fleet_mcp_pull_request_url" => agent.pull_request_url.clone(),
            here::DIRECTORY => agent.directory.clone(),
            "fleet_mcp_url" => self.public_url.map(str::to_owned),
            _ => None,
        }
    }

    fn check_required(&self, request: &CreateWorkspace, preset: Option<&Preset>) -> Result<(), Error> {
        let is_filled = |parameter: &RichParameter| {
            is_set(preset, parameter)
                || request.rich_parameter_values.iter().any(|value| value.name == parameter.name)
        };
        let missing = self
            .info
            .declared
            .parameters
            .iter()
            .find(|parameter| parameter.required && !is_filled(parameter));
        let Some(parameter) = missing else { return Ok(()) };
        let message = format!(
            "template '{}' requires the parameter '{}': set it under [parameters] in the project file of '{}'",
            self.info.template_name, parameter.name, self.info.project.name
        );
        Err(Error::invalid("project", message))
    }
}

fn is_set(preset: Option<&Preset>, parameter: &RichParameter) -> bool {
    preset.is_some_and(|preset| preset.parameters.iter().any(|set| set.name == parameter.name))
}
