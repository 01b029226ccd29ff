//! Routes that list running operations and cancel them.

use axum::Json;
use axum::extract::State;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::operation::{OperationCanceled, OperationList};
use crate::view::request::{CancelOperationInput, ListOperationsInput};
use crate::web::WebState;
use crate::web::arguments::Arguments;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default().routes(routes!(list_operations)).routes(routes!(cancel_operation))
}

/// The operation in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only documents; the arguments are gathered as one input")]
struct OperationPath {
    /// The operation's id.
    operation_id: String,
}

/// Lists the running creates, starts, stops, restarts and deletes of agents, newest first.
#[utoipa::path(get, path = "/operations", tag = "agents", params(ListOperationsInput),
    responses((status = 200, body = OperationList, description = "A page of operations.")))]
async fn list_operations(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<ListOperationsInput>,
) -> Reply<OperationList> {
    let page = fleet.operation_list(&caller, input.into_command()?).await?;
    Ok(Json(OperationList::from(&page)))
}

/// Cancels a running operation; the workspace of a canceled create is deleted.
#[utoipa::path(post, path = "/operations/{operation_id}/cancel", tag = "agents", params(OperationPath),
    request_body = Option<CancelOperationInput>,
    responses((status = 200, body = OperationCanceled, description = "Canceled, or being canceled.")))]
async fn cancel_operation(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<CancelOperationInput>,
) -> Reply<OperationCanceled> {
    let canceled = fleet.operation_cancel(&caller, input.into_command()?).await?;
    Ok(Json(OperationCanceled::from(&canceled)))
}
