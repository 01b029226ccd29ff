//! Every client method by name, so that tests can walk the list of operations.

use fleet_mcp::coder::wire::{AppStatusReport, CreateBuild, CreateWorkspace, ParameterValue};
use fleet_mcp::coder::{
    AppAddress, AppRequest, Client, CoderError, Deleted, Page, PtyOptions, WorkspaceQuery,
};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::AGENT_TOKEN;

/// Calls the method with everything it can send; `values` are what its path's placeholders stand for.
pub(super) async fn call(client: &Client, name: &str, values: &[&str]) -> Result<Value, CoderError> {
    let text = |n: usize| values.get(n).copied().unwrap_or("main");
    let id = || text(0).parse().unwrap_or(Uuid::nil());
    match name {
        "build_info" => client.build_info().await.map(json),
        "organizations" => client.organizations().await.map(json),
        "templates" => client.templates().await.map(json),
        "template_by_name" => client.template_by_name(id(), text(1)).await.map(json),
        "rich_parameters" => client.rich_parameters(id()).await.map(json),
        "presets" => client.presets(id()).await.map(json),
        "workspace_create" => client.workspace_create(id(), &create_workspace()).await.map(json),
        "workspaces" => workspaces(client).await,
        "workspace" => client.workspace(id(), Deleted::Include).await.map(json),
        "workspace_by_name" => client.workspace_by_name(text(0), text(1), Deleted::Include).await.map(json),
        "workspace_builds" => client.workspace_builds(id(), Page { limit: 20, offset: 40 }).await.map(json),
        "build_create" => client.build_create(id(), &create_build()).await.map(json),
        "build_cancel" => client.build_cancel(id()).await.map(json),
        "build_parameters" => client.build_parameters(id()).await.map(json),
        "build_logs" => client.build_logs(id(), Some(7)).await.map(json),
        "agent_metadata" => client.agent_metadata(id()).await.map(json),
        "app_status_report" => client.app_status_report(&AGENT_TOKEN.into(), &report()).await.map(json),
        "app_request" => app_request(client, &app(values), AppRequest::get(text(3))).await,
        "pty_connect" => client.pty_connect(id(), &pty_options()).await.map(|_| Value::Null),
        other => panic!("{other} is no client method: add it here"),
    }
}

pub(super) fn create_workspace() -> CreateWorkspace {
    CreateWorkspace {
        name: "dev".to_owned(),
        template_version_id: Uuid::nil(),
        rich_parameter_values: vec![parameter()],
        template_version_preset_id: Some(Uuid::nil()),
    }
}

pub(super) fn pty_options() -> PtyOptions {
    PtyOptions {
        reconnect: Uuid::nil(),
        width: 80,
        height: 24,
        command: "echo hi & exit".to_owned(),
        container: Some("inner".to_owned()),
    }
}

/// Asks an app and shows the answer as JSON.
pub(super) async fn app_request(
    client: &Client,
    app: &AppAddress,
    request: AppRequest,
) -> Result<Value, CoderError> {
    let reply = client.app_request(app, request).await?;
    Ok(serde_json::from_slice(&reply.body).unwrap_or(Value::Null))
}

async fn workspaces(client: &Client) -> Result<Value, CoderError> {
    let metadata_keys = vec!["role".to_owned()];
    let query = WorkspaceQuery { q: "owner:me".to_owned(), limit: 10, offset: 20, metadata_keys };
    let page = client.workspaces(&query).await?;
    assert_eq!(page.undecodable, []);
    Ok(json!({"workspaces": page.workspaces, "count": page.count}))
}

fn app(values: &[&str]) -> AppAddress {
    let text = |n: usize| values.get(n).copied().unwrap_or("main");
    let (workspace, agent) =
        text(1).split_once('.').map_or((text(1), None), |(name, agent)| (name, Some(agent)));
    AppAddress {
        owner: text(0).to_owned(),
        workspace: workspace.to_owned(),
        agent: agent.map(str::to_owned),
        slug: text(2).to_owned(),
    }
}

fn create_build() -> CreateBuild {
    CreateBuild {
        template_version_id: Some(Uuid::nil()),
        rich_parameter_values: vec![parameter()],
        orphan: true,
        ..CreateBuild::restart()
    }
}

fn parameter() -> ParameterValue {
    ParameterValue { name: "AI Prompt".to_owned(), value: "Fix it".to_owned() }
}

fn report() -> AppStatusReport {
    AppStatusReport {
        app_slug: "ccw".to_owned(),
        state: "working".to_owned(),
        message: "on it".to_owned(),
        uri: String::new(),
    }
}

fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}
