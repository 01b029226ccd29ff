//! Asks an app what it shows, and finds out for certain whether it speaks AgentAPI at all.

use http::StatusCode;
use serde::de::DeserializeOwned;

use super::silent;
use super::wire::{FleetState, Messages, Status};
use crate::app::Fleet;
use crate::coder::{AppAddress, AppReply, AppRequest, CoderError, ErrorKind};
use crate::domain::app::{AppSeen, RunnerSeen};

/// What comes back for a question of AgentAPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AppResponse<T> {
    Parsed(T),
    /// The app's own word that it has nothing like that.
    Unsupported,
    /// A page that says so, of the app or of Coder in its place.
    ErrorPage,
    /// An answer that tells nothing: of somebody who is busy, locked or broken.
    Inconclusive,
}

impl Fleet {
    /// Our own runner tells everything at once; any other AgentAPI does not know that address.
    pub(super) async fn app_query(&self, app: &AppAddress, is_healthy: bool) -> AppSeen {
        let whole = match self.app_get::<FleetState>(app, "/fleet/state").await {
            Ok(AppResponse::Parsed(state)) => return AppSeen::Runner(RunnerSeen::from(state)),
            Ok(answer) => answer.without_body(),
            Err(error) => return silent(&error),
        };
        // The status first: what it says must not be older than the messages it is read with.
        let asked = async {
            let status = self.app_get::<Status>(app, "/status").await?;
            Ok::<_, CoderError>((status, self.app_get::<Messages>(app, "/messages").await?))
        };
        let (status, messages) = match asked.await {
            Ok((AppResponse::Parsed(status), AppResponse::Parsed(messages))) => {
                return AppSeen::AgentApi(messages.with(&status));
            }
            // Other programs have a status too, in words of their own.
            Ok((AppResponse::Parsed(status), messages)) if status.is_known() => {
                (AppResponse::Inconclusive, messages.without_body())
            }
            Ok((AppResponse::Parsed(_), messages)) => (AppResponse::Unsupported, messages.without_body()),
            Ok((status, messages)) => (status.without_body(), messages.without_body()),
            Err(error) => return silent(&error),
        };
        match self.app_is_foreign(app, [whole, status, messages]).await {
            Ok(true) if is_healthy => AppSeen::Foreign,
            Ok(true) => AppSeen::Silent { reason: "the agent's app is not healthy yet".to_owned() },
            Ok(false) => AppSeen::Silent { reason: "the agent's app does not speak AgentAPI".to_owned() },
            Err(error) => silent(&error),
        }
    }

    /// Is it certain that the app itself said all this? Pages may be Coder's, who never answers well in an app's
    /// place: if there is anything at its front door, the app is reached.
    async fn app_is_foreign(
        &self,
        app: &AppAddress,
        answer: [AppResponse<()>; 3],
    ) -> Result<bool, CoderError> {
        if !answer.iter().all(|answer| matches!(answer, AppResponse::Unsupported | AppResponse::ErrorPage)) {
            return Ok(false);
        }
        if !answer.contains(&AppResponse::ErrorPage) {
            return Ok(true);
        }
        Ok(self.coder().app_request(app, AppRequest::get("/")).await?.status.is_success())
    }

    pub(super) async fn app_get<T: DeserializeOwned>(
        &self,
        app: &AppAddress,
        path: &str,
    ) -> Result<AppResponse<T>, CoderError> {
        self.app_read(app, AppRequest::get(path)).await
    }

    pub(super) async fn app_read<T: DeserializeOwned>(
        &self,
        app: &AppAddress,
        request: AppRequest,
    ) -> Result<AppResponse<T>, CoderError> {
        match self.coder().app_request(app, request).await {
            Ok(reply) => Ok(AppResponse::of(&reply)),
            Err(error) if is_not_found(&error) => Ok(AppResponse::ErrorPage),
            Err(error) => Err(error),
        }
    }
}

impl<T: DeserializeOwned> AppResponse<T> {
    fn of(reply: &AppReply) -> Self {
        match reply.status {
            status if status.is_success() => {
                serde_json::from_slice(&reply.body).map_or(Self::Unsupported, Self::Parsed)
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => Self::Unsupported,
            _ => Self::Inconclusive,
        }
    }
}

impl<T> AppResponse<T> {
    /// Only what kind of answer it is.
    fn without_body(self) -> AppResponse<()> {
        match self {
            Self::Parsed(_) => AppResponse::Parsed(()),
            Self::Unsupported => AppResponse::Unsupported,
            Self::ErrorPage => AppResponse::ErrorPage,
            Self::Inconclusive => AppResponse::Inconclusive,
        }
    }
}

/// The app, or Coder for it, knows no such address.
fn is_not_found(error: &CoderError) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unexpected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_answers_tell_that_there_is_no_agent() {
        let answer = |status: u16, body: &'static str| {
            let status = StatusCode::from_u16(status).unwrap();
            AppResponse::<Status>::of(&AppReply { status, content_type: None, body: body.into() })
                .without_body()
        };
        assert_eq!(answer(200, r#"{"status":"stable"}"#), AppResponse::Parsed(()));
        assert_eq!(
            [answer(200, "<html>"), answer(404, "no"), answer(405, ""), answer(410, "")],
            [const { AppResponse::Unsupported }; 4]
        );
        for status in [400, 401, 403, 408, 429, 500, 502, 503] {
            assert_eq!(answer(status, r#"{"status":"stable"}"#), AppResponse::Inconclusive, "{status}");
        }
    }
}
