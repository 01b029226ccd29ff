//! One tool call: the fleet, the caller, and progress notifications.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::app::waiting::PROGRESS_INTERVAL;

#[derive(Debug)]
pub(super) struct Call {
    pub(super) fleet: Fleet,
    pub(super) caller: Caller,
    progress: Option<Progress>,
}

/// The target of progress notifications, if the client asked for them.
#[derive(Debug)]
struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Call {
    pub(super) fn new(fleet: Fleet, caller: Caller, context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        let progress = token.map(|token| Progress { peer: context.peer.clone(), token });
        Self { fleet, caller, progress }
    }

    /// Runs work that may take up to `limit`, and notifies the client of the elapsed time.
    ///
    /// The work runs to its end even if the client disconnects.
    pub(super) async fn reporting<T>(&self, limit: Duration, work: impl Future<Output = T>) -> T {
        let Some(progress) = self.progress.as_ref().filter(|_| !limit.is_zero()) else {
            return work.await;
        };
        tokio::pin!(work);
        let began = Instant::now();
        let mut ticks = interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = ticks.tick() => progress.notify(began.elapsed(), limit).await,
            }
        }
    }
}

impl Call {
    /// Notifies the client of progress, if it asked for that; the value must grow with each call.
    pub(super) async fn notify(&self, done: f64, total: f64, message: &str) {
        if let Some(progress) = &self.progress {
            let notification = ProgressNotificationParam::new(progress.token.clone(), done);
            progress.send(notification.with_total(total).with_message(message)).await;
        }
    }
}

impl Progress {
    async fn notify(&self, elapsed: Duration, limit: Duration) {
        let message = format!("waiting: {} of at most {} s", elapsed.as_secs(), limit.as_secs());
        let notification = ProgressNotificationParam::new(self.token.clone(), elapsed.as_secs_f64())
            .with_total(limit.as_secs_f64())
            .with_message(message);
        self.send(notification).await;
    }

    async fn send(&self, notification: ProgressNotificationParam) {
        if let Err(error) = self.peer.notify_progress(notification).await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the client no longer receives progress"
            );
        }
    }
}
