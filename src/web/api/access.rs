//! Routes for tokens and the audit trail.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use chrono::Utc;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::request::{CreateTokenInput, NoInput, PageInput};
use crate::view::token::{AuditList, TokenCreated, TokenList, TokenRevoked};
use crate::web::WebState;
use crate::web::arguments::Arguments;
use crate::web::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default()
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(revoke_token))
        .routes(routes!(list_audit))
}

/// The token in the path.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
struct TokenPath {
    /// The token's id, never its text.
    id: String,
}

/// Lists all tokens, without their texts.
#[utoipa::path(get, path = "/tokens", tag = "access",
    responses((status = 200, body = TokenList, description = "All tokens, including revoked ones.")))]
async fn list_tokens(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(NoInput {}): Arguments<NoInput>,
) -> Reply<TokenList> {
    let found = fleet.token_list(&caller).await?;
    Ok(Json(TokenList::from(&found)))
}

/// Creates a token. Only this response contains its text.
#[utoipa::path(post, path = "/tokens", tag = "access",
    request_body(content = CreateTokenInput, example = json!({ "kind": "manager", "expires_in_seconds": 3600 })),
    responses((status = 201, body = TokenCreated, description = "The token.")))]
async fn create_token(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<CreateTokenInput>,
) -> Result<impl IntoResponse, Problem> {
    let minted = fleet.token_create(&caller, input.into_command(Utc::now())?).await?;
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(TokenCreated::from(&minted))))
}

/// Revokes a token and the tokens created with it.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "access", params(TokenPath),
    responses((status = 200, body = TokenRevoked, description = "The number of revoked tokens.")))]
async fn revoke_token(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(TokenPath { id }): Arguments<TokenPath>,
) -> Reply<TokenRevoked> {
    let revoked = fleet.token_revoke(&caller, &id).await?;
    Ok(Json(TokenRevoked::of(id, revoked)))
}

/// Lists the audit trail, newest first: caller, action, target and outcome of each call.
#[utoipa::path(get, path = "/audit", tag = "access", params(PageInput),
    responses((status = 200, body = AuditList, description = "A page of the audit trail.")))]
async fn list_audit(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<PageInput>,
) -> Reply<AuditList> {
    let page = fleet.audit_list(&caller, input.into_page()?).await?;
    Ok(Json(AuditList::from(&page)))
}
