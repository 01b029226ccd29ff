//! Routes for rescues and their bundles.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::IntoResponse;
use serde::Deserialize;
use tokio_util::io::ReaderStream;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::request::PageInput;
use crate::view::rescue::{RescueList, RescueRow};
use crate::web::WebState;
use crate::web::arguments::Arguments;
use crate::web::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default()
        .routes(routes!(list_rescues))
        .routes(routes!(show_rescue))
        .routes(routes!(fetch_rescue))
}

/// The rescue in the path.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Path)]
struct RescuePath {
    /// Id of the rescue, a prefix of that id, or the name of an agent, which selects its newest saved work.
    id: String,
}

/// Lists the rescues of deleted agents' work, newest first.
#[utoipa::path(get, path = "/rescues", tag = "agents", params(PageInput),
    responses((status = 200, body = RescueList, description = "A page of rescues, including failed ones.")))]
async fn list_rescues(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<PageInput>,
) -> Reply<RescueList> {
    let page = fleet.rescue_list(&caller, input.into_page()?).await?;
    Ok(Json(RescueList::from(&page)))
}

/// Shows the rescue of one deleted agent's work.
#[utoipa::path(get, path = "/rescues/{id}", tag = "agents", params(RescuePath),
    responses((status = 200, body = RescueRow, description = "The rescue.")))]
async fn show_rescue(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(RescuePath { id }): Arguments<RescuePath>,
) -> Reply<RescueRow> {
    let info = fleet.rescue_show(&caller, &id).await?;
    Ok(Json(RescueRow::from(&info)))
}

/// Downloads the git bundle of a rescue.
#[utoipa::path(get, path = "/rescues/{id}/bundle", tag = "agents", params(RescuePath),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream",
        description = "A bundle that git can fetch from.")))]
async fn fetch_rescue(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(RescuePath { id }): Arguments<RescuePath>,
) -> Result<impl IntoResponse, Problem> {
    let (work, file) = fleet.rescue_fetch(&caller, &id).await?;
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, work.work.bytes.to_string()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(file))))
}
