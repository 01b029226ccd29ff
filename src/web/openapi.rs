//! Generates the OpenAPI document from the routes, and finds a route's tool in it.

use std::sync::LazyLock;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response as HttpResponse};
use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::path::{HttpMethod, Operation, Parameter, PathItem};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Components, Content, Info, OpenApi, Ref, RefOr, Response};
use utoipa_axum::router::OpenApiRouter;

use super::problem::{Problem, ProblemBody};

const DESCRIPTION: &str = "A fleet of coding agents on Coder. Each operationId is the name of the MCP tool; \
    all errors have the same body.";
/// Every way a call can fail: status, name in the document, meaning.
const FAILURES: [Failure; 12] = [
    Failure(400, "InvalidInput", "An argument is missing, unknown or wrong: `details.field` names it."),
    Failure(401, "Unauthenticated", "No token, or a token that is not valid: `error` says which."),
    Failure(403, "Forbidden", "The token has no right to do this, or Host or Origin is not allowed."),
    Failure(404, "NotFound", "The agent, project, role, token or rescue does not exist."),
    Failure(
        409,
        "Conflict",
        "ALREADY_EXISTS, KEY_REUSED, AGENT_BUSY, AGENT_NOT_READY, NO_TASK or CAPACITY_EXCEEDED.",
    ),
    Failure(413, "TooLarge", "The body is larger than 1 MiB."),
    Failure(415, "UnsupportedType", "The body is not of type application/json."),
    Failure(422, "CoderRejected", "Coder refused the request."),
    Failure(
        429,
        "RateLimited",
        "Coder limits the rate of requests, or an agent has too many open requests; `Retry-After` says how \
        long to wait.",
    ),
    Failure(500, "Internal", "An internal error of the server or its store."),
    Failure(
        503,
        "CoderUnavailable",
        "Coder cannot be reached or refuses the server's token; `Retry-After` says when to try again.",
    ),
    Failure(504, "Timeout", "Coder timed out."),
];
/// The failures of calls that change nothing.
const FAILURES_OF_READS: [u16; 6] = [400, 401, 403, 404, 500, 503];

/// An argument of tools that REST has in the path, and so neither in a body nor in a query.
const AGENT_NAME: &str = "agent_name";
/// Such an argument as well, only ever a path parameter.
const OPERATION_ID: &str = "operation_id";

struct Failure(u16, &'static str, &'static str);

#[derive(utoipa::OpenApi)]
#[openapi(
    components(schemas(ProblemBody)),
    security(("bearer" = [])),
    tags(
        (name = "agents", description = "Coding agents, each in its own workspace."),
        (name = "catalog", description = "Roles and projects for new agents."),
        (name = "access", description = "Tokens and the audit trail; operators only."),
        (name = "server", description = "The fleet as a whole and its server process."),
    )
)]
struct Foundation;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| json!(openapi()));

/// The whole document; requires no running server.
pub fn openapi() -> OpenApi {
    let (_router, mut document) = super::routes().split_for_parts();
    let components = document.components.get_or_insert_default();
    add_shared(components);
    for item in document.paths.paths.values_mut() {
        for (method, operation) in operations(item) {
            add_failures(operation, &method);
            forget_agent_name(operation);
        }
    }
    document
}

/// The serialized document.
pub(super) fn document() -> &'static Value {
    &DOCUMENT
}

/// The base document for the routes. Its metadata is set here: the macro's defaults would follow the package's
/// fields.
pub(super) fn start<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    let mut foundation = Foundation::openapi();
    foundation.info = Info::new("fleet-mcp", "1");
    foundation.info.description = Some(DESCRIPTION.to_owned());
    OpenApiRouter::with_openapi(foundation)
}

/// Adds the tool's name to a failure: that of the route's operation.
pub(super) async fn name_tool(request: Request, next: Next) -> HttpResponse {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let tool = path.and_then(|path| tool_of(&path, request.method()));
    let mut response = next.run(request).await;
    match (tool, response.extensions_mut().remove::<Problem>()) {
        (Some(tool), Some(problem)) => problem.with_tool(tool).into_response(),
        (Some(_) | None, _) => response,
    }
}

pub(super) fn tool_of(path: &str, method: &Method) -> Option<&'static str> {
    let operation = DOCUMENT["paths"].get(path)?.get(method.as_str().to_lowercase())?;
    operation["operationId"].as_str()
}

/// The operations of a path; we use these three methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (HttpMethod, &mut Operation)> {
    let served = [
        (HttpMethod::Get, item.get.as_mut()),
        (HttpMethod::Post, item.post.as_mut()),
        (HttpMethod::Delete, item.delete.as_mut()),
    ];
    served.into_iter().filter_map(|(method, operation)| Some((method, operation?)))
}

fn add_shared(components: &mut Components) {
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("A token made by `fleet-mcp token create`.".to_owned());
    components.security_schemes.insert("bearer".to_owned(), RefOr::T(SecurityScheme::Http(bearer)));
    for Failure(_, name, meaning) in FAILURES {
        let mut response = Response::new(meaning);
        let content = Content::new(Some(Ref::from_schema_name("ProblemBody")));
        response.content.insert("application/json".to_owned(), content.into());
        components.responses.insert(name.to_owned(), response.into());
    }
    for (name, schema) in &mut components.schemas {
        if let RefOr::T(Schema::Object(object)) = schema
            && name.ends_with("Input")
        {
            for of_path in [AGENT_NAME, OPERATION_ID] {
                object.properties.remove(of_path);
                object.required.retain(|field| field != of_path);
            }
        }
    }
}

/// A public operation lacks the authentication failures.
fn add_failures(operation: &mut Operation, method: &HttpMethod) {
    if operation.security.is_some() {
        return;
    }
    let is_read = *method == HttpMethod::Get;
    for Failure(status, name, _) in FAILURES {
        if !is_read || FAILURES_OF_READS.contains(&status) {
            let shared = RefOr::Ref(Ref::from_response_name(name));
            operation.responses.responses.insert(status.to_string(), shared);
        }
    }
}

fn forget_agent_name(operation: &mut Operation) {
    let is_kept = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.name != AGENT_NAME,
        RefOr::Ref(_) => true,
    };
    operation.parameters.iter_mut().for_each(|parameters| parameters.retain(is_kept));
}
