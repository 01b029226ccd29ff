//! Whether Coder answers us, kept for readers and for those who must wait until it does.

use chrono::{DateTime, Utc};
use tokio::sync::watch;

/// What is known of the connection to Coder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoderHealth {
    pub version: Option<String>,
    pub last_ok_at: Option<DateTime<Utc>>,
    pub error: Option<String>,
    /// Coder does not take our token: nothing but a new one helps.
    pub is_unauthorized: bool,
}

impl CoderHealth {
    pub fn is_reachable(&self) -> bool {
        self.error.is_none() && self.last_ok_at.is_some()
    }
}

#[derive(Debug)]
pub struct Health(watch::Sender<CoderHealth>);

impl Default for Health {
    fn default() -> Self {
        Self(watch::Sender::new(CoderHealth::default()))
    }
}

impl Health {
    pub fn now(&self) -> CoderHealth {
        self.0.borrow().clone()
    }

    /// Returns once Coder answers; at once if it does.
    pub(super) async fn reachable(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives as long as we do, so an end of changes cannot happen while anyone waits.
        let _seen = changes.wait_for(CoderHealth::is_reachable).await;
    }

    /// Returns once Coder has been asked, whatever it said.
    pub async fn asked(&self) {
        let mut changes = self.0.subscribe();
        let _seen = changes.wait_for(|health| health.last_ok_at.is_some() || health.error.is_some()).await;
    }

    pub(super) fn set_version(&self, version: String) {
        self.0.send_modify(|health| health.version = Some(version));
    }

    pub(super) fn set_ok(&self, at: DateTime<Utc>) {
        let was_down = self.0.borrow().error.is_some();
        self.0.send_modify(|health| {
            health.last_ok_at = Some(at);
            health.error = None;
            health.is_unauthorized = false;
        });
        if was_down {
            tracing::info!("Coder answers again");
        }
    }

    /// Says it once: the same trouble seen again is not news.
    pub(super) fn set_error(&self, error: String, is_unauthorized: bool) {
        let is_news = self.0.borrow().error.as_ref() != Some(&error);
        if is_news && is_unauthorized {
            tracing::error!("Coder does not accept our token; set a new one, nothing is done until then");
        } else if is_news {
            tracing::warn!(error, "Coder cannot be reached; reads serve the last state, changes wait");
        }
        self.0.send_modify(|health| {
            health.error = Some(error);
            health.is_unauthorized = is_unauthorized;
        });
    }
}
