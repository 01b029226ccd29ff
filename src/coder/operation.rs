//! All requests that we send to Coder; `openapi/coder.json` lists the same, and a test compares them.

use http::Method;

/// One kind of request to Coder, named like the client method that sends it.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    pub name: &'static str,
    pub methods: &'static [Method],
    /// The path with `{placeholders}`, each for one segment; a final `{path}` may stand for several.
    pub path: &'static str,
}

impl Operation {
    const fn get(name: &'static str, path: &'static str) -> Self {
        Self { name, methods: &[Method::GET], path }
    }

    const fn post(name: &'static str, path: &'static str) -> Self {
        Self { name, methods: &[Method::POST], path }
    }

    const fn patch(name: &'static str, path: &'static str) -> Self {
        Self { name, methods: &[Method::PATCH], path }
    }
}

/// Every operation, in the order of the client's files.
pub static OPERATIONS: [&Operation; 19] = [
    &BUILD_INFO,
    &ORGANIZATIONS,
    &TEMPLATES,
    &TEMPLATE_BY_NAME,
    &RICH_PARAMETERS,
    &PRESETS,
    &WORKSPACE_CREATE,
    &WORKSPACES,
    &WORKSPACE,
    &WORKSPACE_BY_NAME,
    &WORKSPACE_BUILDS,
    &BUILD_CREATE,
    &BUILD_CANCEL,
    &BUILD_PARAMETERS,
    &BUILD_LOGS,
    &AGENT_METADATA,
    &APP_STATUS_REPORT,
    &APP_REQUEST,
    &PTY_CONNECT,
];

pub(super) static BUILD_INFO: Operation = Operation::get("build_info", "/api/v2/buildinfo");
pub(super) static ORGANIZATIONS: Operation = Operation::get("organizations", "/api/v2/organizations");

pub(super) static TEMPLATES: Operation = Operation::get("templates", "/api/v2/templates");
pub(super) static TEMPLATE_BY_NAME: Operation =
    Operation::get("template_by_name", "/api/v2/organizations/{organization}/templates/{name}");
pub(super) static RICH_PARAMETERS: Operation =
    Operation::get("rich_parameters", "/api/v2/templateversions/{version}/rich-parameters");
pub(super) static PRESETS: Operation =
    Operation::get("presets", "/api/v2/templateversions/{version}/presets");

pub(super) static WORKSPACE_CREATE: Operation =
    Operation::post("workspace_create", "/api/v2/organizations/{organization}/members/me/workspaces");
pub(super) static WORKSPACES: Operation = Operation::get("workspaces", "/api/v2/workspaces");
pub(super) static WORKSPACE: Operation = Operation::get("workspace", "/api/v2/workspaces/{workspace}");
pub(super) static WORKSPACE_BY_NAME: Operation =
    Operation::get("workspace_by_name", "/api/v2/users/{owner}/workspace/{name}");

pub(super) static WORKSPACE_BUILDS: Operation =
    Operation::get("workspace_builds", "/api/v2/workspaces/{workspace}/builds");
pub(super) static BUILD_CREATE: Operation =
    Operation::post("build_create", "/api/v2/workspaces/{workspace}/builds");
pub(super) static BUILD_CANCEL: Operation =
    Operation::patch("build_cancel", "/api/v2/workspacebuilds/{build}/cancel");
pub(super) static BUILD_PARAMETERS: Operation =
    Operation::get("build_parameters", "/api/v2/workspacebuilds/{build}/parameters");
pub(super) static BUILD_LOGS: Operation =
    Operation::get("build_logs", "/api/v2/workspacebuilds/{build}/logs");

pub(super) static AGENT_METADATA: Operation =
    Operation::get("agent_metadata", "/api/v2/workspaceagents/{agent}/watch-metadata");
pub(super) static APP_STATUS_REPORT: Operation =
    Operation::patch("app_status_report", "/api/v2/workspaceagents/me/app-status");

pub(super) static APP_REQUEST: Operation = Operation {
    name: "app_request",
    methods: &[Method::GET, Method::POST],
    path: "/@{owner}/{workspace}/apps/{slug}/{path}",
};
pub(super) static PTY_CONNECT: Operation =
    Operation::get("pty_connect", "/api/v2/workspaceagents/{agent}/pty");
