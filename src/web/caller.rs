//! Extracts the authenticated caller for a handler.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::problem::{AuthFault, Problem};
use crate::app::caller::{Caller, Surface};
use crate::domain::access::Principal;
use crate::domain::directory::{HEADER, decode};

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    /// Fails without a principal, so that a route outside of the guard refuses everything.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        match parts.extensions.get::<Principal>().cloned() {
            Some(principal) => {
                let directory = parts.headers.get(HEADER).map(|value| decode(value.as_bytes()));
                Ok(Self { principal, surface: Surface::Rest, directory })
            }
            None => Err(Problem::from(AuthFault::MissingToken).into_response()),
        }
    }
}
