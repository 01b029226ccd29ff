//! Queries an app and determines whether it speaks AgentAPI at all.

use http::StatusCode;
use serde::de::DeserializeOwned;

use super::silent;
use super::wire::{FleetState, Messages, Status};
use crate::app::Fleet;
use crate::coder::{AppAddress, AppReply, AppRequest, CoderError, ErrorKind};
use crate::domain::app::{AppSeen, RunnerSeen};

/// A classified response to an AgentAPI request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AppResponse<T> {
    Parsed(T),
    /// The app itself reports that it has no such route.
    Unsupported,
    /// An error page, from the app or from Coder in its place.
    ErrorPage,
    /// A response that proves nothing, such as that of a busy, locked or broken app.
    Inconclusive,
}

impl Fleet {
    /// Our runner returns its whole state at once; any other AgentAPI has no such route.
    pub(super) async fn app_query(&self, app: &AppAddress, is_healthy: bool) -> AppSeen {
        let whole = match self.app_get::<FleetState>(app, "/fleet/state").await {
            Ok(AppResponse::Parsed(state)) => return AppSeen::Runner(RunnerSeen::from(state)),
            Ok(answer) => answer.without_body(),
            Err(error) => return silent(&error),
        };
        // Read the status first: it must not be older than the messages.
        let asked = async {
            let status = self.app_get::<Status>(app, "/status").await?;
            Ok::<_, CoderError>((status, self.app_get::<Messages>(app, "/messages").await?))
        };
        let (status, messages) = match asked.await {
            Ok((AppResponse::Parsed(status), AppResponse::Parsed(messages))) => {
                return AppSeen::AgentApi(messages.with(&status));
            }
            // Other programs have a status route too, with other values.
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

    /// Whether the app itself gave all these answers. An error page may come from Coder, which never answers a
    /// request for an app with success: if the app's root succeeds, the app was reached.
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
    /// Keeps the kind of response only.
    fn without_body(self) -> AppResponse<()> {
        match self {
            Self::Parsed(_) => AppResponse::Parsed(()),
            Self::Unsupported => AppResponse::Unsupported,
            Self::ErrorPage => AppResponse::ErrorPage,
            Self::Inconclusive => AppResponse::Inconclusive,
        }
    }
}

/// The app, or Coder in its place, has no such route.
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
