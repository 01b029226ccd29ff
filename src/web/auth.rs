//! Authenticates requests: the credential becomes a principal before any handler runs.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::WebState;
use super::attempt::attempted_call;
use super::credential;
use super::problem::{AuthFault, Problem};
use crate::app::Fleet;
use crate::app::tokens::RefusedToken;
use crate::domain::access::Principal;
use crate::domain::role::RoleKind;
use crate::serve::{GuardedBody, MOST_OF_AGENT, MOST_OF_MANAGING_AGENT, OpenRequest, OpenRequests};

/// Routes without authentication; they show only ok or the failing part, for monitoring.
const OPEN_ROUTES: [&str; 2] = ["/healthz", "/readyz"];

pub(super) async fn authenticate(
    State(state): State<WebState>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if OPEN_ROUTES.contains(&request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let token = credential::take(&mut request)?;
    match state.fleet.token_principal(&token).await? {
        Ok(principal) => {
            let open = begin(&state.open_requests, &principal)?;
            request.extensions_mut().insert(principal);
            let response = next.run(request).await;
            Ok(response.map(|body| Body::new(GuardedBody::new(body, open))))
        }
        Err(refused) => Err(turn_away(&state.fleet, &refused, request).await),
    }
}

/// An agent must not lock out people and other agents by holding all connections. People are not counted.
fn begin(all: &OpenRequests, principal: &Principal) -> Result<Option<OpenRequest>, Problem> {
    let most = match (principal.agent, principal.kind) {
        (None, _) => return Ok(None),
        (Some(_), RoleKind::Operator | RoleKind::Manager) => MOST_OF_MANAGING_AGENT,
        (Some(_), RoleKind::Coding | RoleKind::Review | RoleKind::Planning) => MOST_OF_AGENT,
    };
    all.begin(principal.signature(), most).map(Some).ok_or_else(|| Problem::too_many_open(most))
}

/// Unknown tokens leave no audit row, since anyone could fill the disk so. The metrics count them.
async fn turn_away(fleet: &Fleet, refused: &RefusedToken, request: Request) -> Problem {
    if refused.is_known() {
        fleet.refusal_record(refused, attempted_call(request).await).await;
    }
    AuthFault::InvalidToken(refused.reason).into()
}
