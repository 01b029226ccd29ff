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
pub(super) enum Said<T> {
    This(T),
    /// The app's own word that it has nothing like that.
    Other,
    /// A page that says so, of the app or of Coder in its place.
    Page,
    /// An answer that tells nothing: of somebody who is busy, locked or broken.
    Vague,
}

impl Fleet {
    /// Our own runner tells everything at once; any other AgentAPI does not know that address.
    pub(super) async fn app_ask(&self, app: &AppAddress, is_well: bool) -> AppSeen {
        let whole = match self.app_get::<FleetState>(app, "/fleet/state").await {
            Ok(Said::This(state)) => return AppSeen::Runner(RunnerSeen::from(state)),
            Ok(said) => said.without(),
            Err(error) => return silent(&error),
        };
        // The status first: what it says must not be older than the messages it is read with.
        let asked = async {
            let status = self.app_get::<Status>(app, "/status").await?;
            Ok::<_, CoderError>((status, self.app_get::<Messages>(app, "/messages").await?))
        };
        let (status, messages) = match asked.await {
            Ok((Said::This(status), Said::This(messages))) => {
                return AppSeen::AgentApi(messages.with(&status));
            }
            // Other programs have a status too, in words of their own.
            Ok((Said::This(status), messages)) if status.is_known() => (Said::Vague, messages.without()),
            Ok((Said::This(_), messages)) => (Said::Other, messages.without()),
            Ok((status, messages)) => (status.without(), messages.without()),
            Err(error) => return silent(&error),
        };
        match self.app_is_foreign(app, [whole, status, messages]).await {
            Ok(true) if is_well => AppSeen::Foreign,
            Ok(true) => AppSeen::Silent { reason: "the agent's app is not healthy yet".to_owned() },
            Ok(false) => AppSeen::Silent { reason: "the agent's app does not speak AgentAPI".to_owned() },
            Err(error) => silent(&error),
        }
    }

    /// Is it certain that the app itself said all this? Pages may be Coder's, who never answers well in an app's
    /// place: if there is anything at its front door, the app is reached.
    async fn app_is_foreign(&self, app: &AppAddress, said: [Said<()>; 3]) -> Result<bool, CoderError> {
        if !said.iter().all(|said| matches!(said, Said::Other | Said::Page)) {
            return Ok(false);
        }
        if !said.contains(&Said::Page) {
            return Ok(true);
        }
        Ok(self.coder().app_request(app, AppRequest::get("/")).await?.status.is_success())
    }

    pub(super) async fn app_get<T: DeserializeOwned>(
        &self,
        app: &AppAddress,
        path: &str,
    ) -> Result<Said<T>, CoderError> {
        self.app_read(app, AppRequest::get(path)).await
    }

    pub(super) async fn app_read<T: DeserializeOwned>(
        &self,
        app: &AppAddress,
        request: AppRequest,
    ) -> Result<Said<T>, CoderError> {
        match self.coder().app_request(app, request).await {
            Ok(reply) => Ok(Said::of(&reply)),
            Err(error) if is_elsewhere(&error) => Ok(Said::Page),
            Err(error) => Err(error),
        }
    }
}

impl<T: DeserializeOwned> Said<T> {
    fn of(reply: &AppReply) -> Self {
        match reply.status {
            status if status.is_success() => {
                serde_json::from_slice(&reply.body).map_or(Self::Other, Self::This)
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => Self::Other,
            _ => Self::Vague,
        }
    }
}

impl<T> Said<T> {
    /// Only what kind of answer it is.
    fn without(self) -> Said<()> {
        match self {
            Self::This(_) => Said::This(()),
            Self::Other => Said::Other,
            Self::Page => Said::Page,
            Self::Vague => Said::Vague,
        }
    }
}

/// The app, or Coder for it, knows no such address.
fn is_elsewhere(error: &CoderError) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unexpected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_answers_tell_that_there_is_no_agent() {
        let said = |status: u16, body: &'static str| {
            let status = StatusCode::from_u16(status).unwrap();
            Said::<Status>::of(&AppReply { status, content_type: None, body: body.into() }).without()
        };
        assert_eq!(said(200, r#"{"status":"stable"}"#), Said::This(()));
        assert_eq!(
            [said(200, "<html>"), said(404, "no"), said(405, ""), said(410, "")],
            [const { Said::Other }; 4]
        );
        for status in [400, 401, 403, 408, 429, 500, 502, 503] {
            assert_eq!(said(status, r#"{"status":"stable"}"#), Said::Vague, "{status}");
        }
    }
}
