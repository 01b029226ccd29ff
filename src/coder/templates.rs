//! Calls about templates, and the parameters and presets of their versions.

use uuid::Uuid;

use super::operation::{PRESETS, RICH_PARAMETERS, TEMPLATE_BY_NAME, TEMPLATES};
use super::request::Request;
use super::wire::{Preset, RichParameter, Template};
use super::{Client, CoderError};

impl Client {
    pub async fn templates(&self) -> Result<Vec<Template>, CoderError> {
        self.call_list(Request::new(&TEMPLATES, &[])).await
    }

    pub async fn template_by_name(&self, organization: Uuid, name: &str) -> Result<Template, CoderError> {
        self.call(Request::new(&TEMPLATE_BY_NAME, &[&organization, &name])).await
    }

    pub async fn rich_parameters(&self, version: Uuid) -> Result<Vec<RichParameter>, CoderError> {
        self.call_list(Request::new(&RICH_PARAMETERS, &[&version])).await
    }

    pub async fn presets(&self, version: Uuid) -> Result<Vec<Preset>, CoderError> {
        self.call_list(Request::new(&PRESETS, &[&version])).await
    }
}
