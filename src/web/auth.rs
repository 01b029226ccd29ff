//! Lets in whoever holds a token: the credential becomes a principal before any handler runs.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;
use secrecy::SecretString;

use super::WebState;
use super::attempt::attempt_of;
use super::problem::{AuthFault, Problem};
use crate::app::Fleet;
use crate::app::tokens::Refused;
use crate::domain::access::Principal;
use crate::domain::role::RoleKind;
use crate::serve::{Held, MOST_OF_AGENT, MOST_OF_MANAGING_AGENT, OpenRequest, OpenRequests};

/// They say nothing but ok or the failing part, to those who watch the process from outside.
const OPEN_ROUTES: [&str; 2] = ["/healthz", "/readyz"];

pub(super) async fn authenticate(
    State(state): State<WebState>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if OPEN_ROUTES.contains(&request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let token = bearer_token(request.headers())?;
    // Nothing further in needs the header, so nothing further in can log or forward it.
    request.headers_mut().remove(AUTHORIZATION);
    match state.fleet.token_principal(&token).await? {
        Ok(principal) => {
            let open = begin(&state.open_requests, &principal)?;
            request.extensions_mut().insert(principal);
            let response = next.run(request).await;
            Ok(response.map(|body| Body::new(Held::new(body, open))))
        }
        Err(refused) => Err(turn_away(&state.fleet, &refused, request).await),
    }
}

/// An agent must not keep people and other agents out by taking every connection. People are not counted.
fn begin(all: &OpenRequests, principal: &Principal) -> Result<Option<OpenRequest>, Problem> {
    let most = match (principal.agent, principal.kind) {
        (None, _) => return Ok(None),
        (Some(_), RoleKind::Operator | RoleKind::Manager) => MOST_OF_MANAGING_AGENT,
        (Some(_), RoleKind::Coding | RoleKind::Review | RoleKind::Planning) => MOST_OF_AGENT,
    };
    all.begin(principal.signature(), most).map(Some).ok_or_else(|| Problem::too_many_open(most))
}

/// Strangers leave no row: anyone could write as many as they like. The metrics count them.
async fn turn_away(fleet: &Fleet, refused: &Refused, request: Request) -> Problem {
    if refused.is_known() {
        fleet.refusal_record(refused, attempt_of(request).await).await;
    }
    AuthFault::InvalidToken(refused.reason).into()
}

fn bearer_token(headers: &HeaderMap) -> Result<SecretString, AuthFault> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let header = given.next().ok_or(AuthFault::MissingToken)?;
    let text = header.to_str().map_err(|_| AuthFault::MalformedHeader)?;
    let (scheme, token) = text.split_once(' ').ok_or(AuthFault::MalformedHeader)?;
    let is_one_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if given.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") || !is_one_token {
        return Err(AuthFault::MalformedHeader);
    }
    Ok(SecretString::from(token))
}
