//! One suite for every Coder: always on the embedded one, and unchanged on a real one that the environment names.

mod apps;
mod life_cycle;
mod refusals;
mod streams;
mod terminals;

use std::sync::Mutex;

use fleet_mcp::coder::wire::{CreateBuild, CreateWorkspace, ParameterValue, Template, Workspace};
use fleet_mcp::coder::{Client, Deleted};
use uuid::Uuid;

use crate::harness::{Api, Live, LocalSite, TEMPLATE, client, is_over, is_ready, live, watched};

/// A Coder to be tested, and what was made there.
pub(crate) struct Subject {
    api: Api,
    pub(crate) client: Client,
    template: Template,
    pub(crate) url: String,
    pub(crate) token: String,
    made: Mutex<Vec<Uuid>>,
}

/// Runs a test on the embedded Coder, and on a real one when there is one.
pub(crate) async fn on_every_coder(test: impl AsyncFn(&Subject)) {
    let site = LocalSite::new();
    let local = site.start().await;
    let subject = Subject::new(&local.url, &local.token, TEMPLATE).await;
    test(&subject).await;
    local.coder.stop().await;
    if let Some(live) = live() {
        on_live(&live, &live.template, test).await;
    }
}

/// Runs a test on a real Coder, and removes what it made there.
pub(crate) async fn on_live(live: &Live, template: &str, test: impl AsyncFn(&Subject)) {
    let subject = Subject::new(&live.url, &live.token, template).await;
    test(&subject).await;
    subject.clean_up().await;
}

impl Subject {
    async fn new(url: &str, token: &str, template: &str) -> Self {
        let client = client(url, token);
        let templates = client.templates().await.unwrap();
        let template = templates.into_iter().find(|known| known.name == template);
        Self {
            api: Api::new(url, token),
            client,
            template: template.expect("the template of the tests is there"),
            url: url.to_owned(),
            token: token.to_owned(),
            made: Mutex::default(),
        }
    }

    fn fresh_name() -> String {
        let digits = Uuid::new_v4().simple().to_string();
        format!("contract-{}", &digits[..12])
    }

    async fn request(&self, name: &str) -> CreateWorkspace {
        let parameters = self.client.rich_parameters(self.template.active_version_id).await.unwrap();
        let needed = parameters.iter().filter(|parameter| parameter.required);
        let values =
            needed.map(|parameter| ParameterValue { name: parameter.name.clone(), value: "x".into() });
        CreateWorkspace {
            name: name.to_owned(),
            template_version_id: self.template.active_version_id,
            rich_parameter_values: values.collect(),
            template_version_preset_id: None,
        }
    }

    async fn create(&self) -> Workspace {
        let request = self.request(&Self::fresh_name()).await;
        let made = self.client.workspace_create(self.template.organization_id, &request).await.unwrap();
        self.made.lock().unwrap().push(made.id);
        made
    }

    pub(crate) async fn create_ready(&self) -> Workspace {
        let made = self.create().await;
        self.until(made.id, is_ready).await
    }

    pub(crate) async fn until(&self, workspace: Uuid, wanted: impl Fn(&Workspace) -> bool) -> Workspace {
        watched(&self.api, workspace, wanted).await
    }

    /// Asks for a build and waits for its end.
    pub(crate) async fn build(&self, workspace: Uuid, build: &CreateBuild) -> Workspace {
        let asked = self.client.build_create(workspace, build).await.unwrap();
        self.until(workspace, |now| now.latest_build.id == asked.id && is_over(now)).await
    }

    async fn clean_up(&self) {
        let made = self.made.lock().unwrap().clone();
        for workspace in made {
            // What a test has deleted itself is gone already; what is still being built cannot be deleted yet.
            if self.client.workspace(workspace, Deleted::Exclude).await.is_ok() {
                self.until(workspace, is_over).await;
                self.client.build_create(workspace, &CreateBuild::delete()).await.ok();
            }
        }
    }
}

pub(crate) fn agent_id(workspace: &Workspace) -> Uuid {
    workspace.latest_build.resources.iter().flat_map(|resource| &resource.agents).next().unwrap().id
}
