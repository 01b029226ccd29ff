//! Every failure of a use case has its status, and a retry time where it is known.

use super::*;
use crate::domain::access::Denial;
use crate::domain::agent::AgentStatus;
use crate::domain::operation::Failure;
use crate::domain::role::RoleKind;

fn operation_failed(code: &str) -> Error {
    Error::Operation(Failure { code: code.to_owned(), message: "the build failed".to_owned() })
}

#[test]
fn every_failure_has_its_status() {
    let cases = [
        (Error::invalid("page", "page is 0"), 400, None),
        (Error::Forbidden(Denial::Kind(RoleKind::Coding)), 403, None),
        (Error::AgentNotFound("otter".into()), 404, None),
        (Error::CatalogNotFound { what: "project", name: "x".into(), known: "none".into() }, 404, None),
        (Error::TokenNotFound("7".into()), 404, None),
        (Error::AlreadyExists("otter".into()), 409, None),
        (Error::NotReady { name: "otter".into(), status: AgentStatus::Stopped }, 409, None),
        (Error::KeyReused, 409, None),
        (Error::CoderRejected("no such parameter".into()), 422, None),
        (Error::RateLimited, 429, Some("60")),
        (operation_failed("INTERNAL"), 500, None),
        (operation_failed("no code of ours"), 500, None),
        (Error::CoderUnavailable("connection refused".into()), 503, Some("5")),
        (operation_failed("CODER_REJECTED"), 422, None),
        (operation_failed("TIMEOUT"), 504, None),
    ];
    for (error, status, retry_after) in cases {
        let text = error.to_string();
        let response = Problem::from(error).into_response();
        let header = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), header), (status, retry_after), "{text}");
    }
}
