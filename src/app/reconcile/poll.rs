//! The poller: lists all workspaces page by page and passes them on; errors only slow it down.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::health::TokenRefused;
use crate::app::hooks::point;
use crate::coder::wire::Workspace;
use crate::coder::{CoderError, ErrorKind, WorkspaceQuery};
use crate::domain::limits::Limits;
use crate::domain::metadata::listed_names;
use crate::durations::Backoff;

const PAGE_SIZE: u32 = 100;
/// More unreadable workspaces than this mean that Coder's responses cannot be trusted.
const MOST_UNREADABLE: u32 = 10;
const KEYS_KEPT: TimeDelta = TimeDelta::days(7);
/// Ended tokens are kept this long, so that their use gets a specific error.
const TOKENS_KEPT: TimeDelta = TimeDelta::days(30);
/// Outputs are kept this long after the end of a run; the run's record is kept forever.
const OUTPUTS_KEPT: TimeDelta = TimeDelta::days(30);

/// All workspaces of the server's user in one poll.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) workspaces: Vec<Workspace>,
    /// Undecodable rows: their agents keep their state.
    pub(super) unreadable: Vec<Uuid>,
    pub(super) polled_at: DateTime<Utc>,
    /// Orders polls, independent of the wall clock.
    pub(super) began: Instant,
    /// Requested pages, including those that were too large.
    n_pages: u32,
}

/// The position in the list and the size of the next page.
#[derive(Debug)]
struct ListCursor {
    limit: u32,
    offset: u32,
    n_unreadable: u32,
}

impl Fleet {
    pub(super) async fn poll_until(self, stop: CancellationToken) {
        let mut schedule = PollSchedule::new(self.options().poll_interval, self.limits());
        loop {
            let turn = async {
                let result = self.poll_once(&mut schedule).await;
                schedule.note(result.as_ref());
                self.note_health(&result);
            };
            tokio::select! {
                () = turn => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(schedule.gap()) => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(schedule.interval().saturating_sub(schedule.gap())) => {}
                () = self.0.poll_nudge.notified(), if !schedule.is_troubled() => {}
                () = self.0.poll_force.notified() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One poll: templates at intervals, workspaces always. Returns the number of pages.
    async fn poll_once(&self, schedule: &mut PollSchedule) -> Result<u32, CoderError> {
        if self.health().now().version.is_none() {
            self.health().set_version(self.coder().build_info().await?.version);
        }
        if schedule.is_discovery_due() {
            match self.discovery_refresh().await {
                Err(error) if is_rate_limit(&error) && self.discovered().is_ok() => {
                    tracing::warn!(%error, "the templates are not read until Coder accepts requests again");
                    let limits = self.limits();
                    let pause = limit_of(&error, limits).unwrap_or(limits.unnamed_rate_limit);
                    schedule.discover_after(pause.min(limits.rate_limit));
                }
                other => {
                    other?;
                    schedule.discover_after(self.limits().discovery_interval);
                    self.forget_old().await;
                }
            }
        }
        let listing = self.list_all(schedule).await?;
        let n_pages = listing.n_pages;
        point("poll.listed");
        if let Err(error) = self.absorb(listing).await {
            tracing::error!(
                %error, source = ?std::error::Error::source(&error),
                "the state read from Coder could not be stored"
            );
        }
        Ok(n_pages)
    }

    /// Removes old data. Request keys are guaranteed for a day and kept for a week.
    async fn forget_old(&self) {
        let before = Utc::now() - KEYS_KEPT;
        if let Err(error) = self.store().request_keys_prune(before).await {
            tracing::warn!(%error, "old request keys could not be removed");
        }
        if let Err(error) = self.store().tokens_prune(Utc::now() - TOKENS_KEPT).await {
            tracing::warn!(%error, "old tokens of agents could not be removed");
        }
        if let Err(error) = self.store().run_outputs_prune(Utc::now() - OUTPUTS_KEPT, Utc::now()).await {
            tracing::warn!(%error, "old outputs of runs could not be removed");
        }
        if let Err(error) = self.store().room_for_new_work() {
            tracing::warn!(%error, "new work is refused until the disk has free space again");
        }
    }

    async fn list_all(&self, schedule: &mut PollSchedule) -> Result<Listing, CoderError> {
        let mut listing = Listing::begin();
        let mut cursor = ListCursor { limit: PAGE_SIZE, offset: 0, n_unreadable: 0 };
        loop {
            listing.n_pages += 1;
            let page = match self.coder().workspaces(&schedule.query(&cursor)).await {
                // An older Coder does not know the metadata query: omit it from now on.
                Err(error) if schedule.with_metadata && error.kind() == ErrorKind::Invalid => {
                    schedule.with_metadata = false;
                    continue;
                }
                Err(error @ CoderError::TooLarge { .. }) => {
                    cursor.shrink(error)?;
                    continue;
                }
                other => other?,
            };
            listing.unreadable.extend(page.undecodable.iter().filter_map(|row| row.id));
            listing.workspaces.extend(page.workspaces);
            cursor.advance();
            // Coder counts rows that it leaves out, so that only the offset shows the end.
            if u64::from(cursor.offset) >= page.count {
                return Ok(listing);
            }
        }
    }

    /// A rate limit is a response and applies to one path: other requests to Coder continue.
    fn note_health(&self, result: &Result<u32, CoderError>) {
        match result {
            Ok(_) => self.health().set_ok(Utc::now()),
            Err(error) if is_rate_limit(error) && self.health().now().is_reachable() => {
                tracing::warn!(%error, "the workspaces are not read until Coder accepts requests again");
            }
            Err(error) => self.health().set_error(error),
        }
    }
}

impl Listing {
    fn begin() -> Self {
        Self {
            workspaces: Vec::new(),
            unreadable: Vec::new(),
            polled_at: Utc::now(),
            began: Instant::now(),
            n_pages: 0,
        }
    }
}

impl ListCursor {
    /// Halves the page, so that a workspace with too much text does not hide the others. A workspace that is too
    /// large by itself is skipped: its agent keeps its state, since only an explicit response of Coder marks it
    /// deleted.
    fn shrink(&mut self, error: CoderError) -> Result<(), CoderError> {
        if self.limit > 1 {
            self.limit /= 2;
            return Ok(());
        }
        self.n_unreadable += 1;
        if self.n_unreadable > MOST_UNREADABLE {
            return Err(error);
        }
        tracing::warn!(%error, list.offset = self.offset, "a workspace is ignored: its record is too large");
        self.offset += 1;
        Ok(())
    }

    fn advance(&mut self) {
        self.offset += self.limit;
        self.limit = PAGE_SIZE.min(self.limit * 2);
    }
}

/// The pause between polls, by the size of the fleet and recent errors.
#[derive(Debug)]
struct PollSchedule {
    base: Duration,
    limits: Limits,
    n_pages: u32,
    n_failures: u32,
    is_unauthorized: bool,
    /// The rate limit after the last poll.
    limited_for: Option<Duration>,
    with_metadata: bool,
    /// When the next discovery is due; none: with the next poll.
    discovery_due: Option<Instant>,
}

impl PollSchedule {
    fn new(base: Duration, limits: &Limits) -> Self {
        Self {
            base,
            limits: *limits,
            n_pages: 1,
            n_failures: 0,
            is_unauthorized: false,
            limited_for: None,
            with_metadata: true,
            discovery_due: None,
        }
    }

    fn note(&mut self, result: Result<&u32, &CoderError>) {
        match result {
            Ok(n_pages) => {
                self.n_pages = *n_pages;
                self.n_failures = 0;
                self.is_unauthorized = false;
                self.limited_for = None;
            }
            Err(error) => {
                self.limited_for = limit_of(error, &self.limits);
                self.n_failures = self.n_failures.saturating_add(u32::from(self.limited_for.is_none()));
                self.is_unauthorized = TokenRefused::of_list(error).is_some();
            }
        }
    }

    fn is_troubled(&self) -> bool {
        self.n_failures > 0 || self.limited_for.is_some()
    }

    /// The shortest pause before the next poll.
    fn gap(&self) -> Duration {
        let gap = self.limits.page_gap;
        if self.n_pages > 1 { gap * self.n_pages } else { gap.min(self.base) }
    }

    fn interval(&self) -> Duration {
        if self.is_unauthorized {
            return self.limits.unauthorized_interval;
        }
        if let Some(wait) = self.limited_for {
            return wait.min(self.limits.rate_limit).max(self.gap());
        }
        let calm = self.base.max(self.gap());
        Backoff::new(calm, self.limits.poll_backoff.max(calm)).pause(self.n_failures)
    }

    fn discover_after(&mut self, pause: Duration) {
        self.discovery_due = Some(Instant::now() + pause);
    }

    fn is_discovery_due(&self) -> bool {
        self.discovery_due.is_none_or(|due| Instant::now() >= due)
    }

    fn query(&self, cursor: &ListCursor) -> WorkspaceQuery {
        WorkspaceQuery {
            q: "owner:me".to_owned(),
            limit: cursor.limit,
            offset: cursor.offset,
            metadata_keys: if self.with_metadata { listed_names() } else { Vec::new() },
        }
    }
}

fn is_rate_limit(error: &CoderError) -> bool {
    matches!(error.kind(), ErrorKind::RateLimited { .. })
}

/// The duration of a rate limit.
fn limit_of(error: &CoderError, limits: &Limits) -> Option<Duration> {
    let ErrorKind::RateLimited { retry_at } = error.kind() else { return None };
    let named = retry_at.map(|at| (at - Utc::now()).to_std().unwrap_or(Duration::ZERO));
    Some(named.unwrap_or(limits.unnamed_rate_limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_size_of_the_fleet_and_slows_down_in_trouble() {
        let mut schedule = PollSchedule::new(Duration::from_secs(1), &Limits::NORMAL);
        assert_eq!(schedule.interval(), Duration::from_secs(1));
        schedule.note(Ok(&10));
        assert_eq!(schedule.interval(), Duration::from_millis(2_500));
        let refused = CoderError::Setup { reason: "x".into() };
        schedule.note(Err(&refused));
        assert_eq!(schedule.interval(), Duration::from_secs(5));
        for _ in 0..40 {
            schedule.note(Err(&refused));
        }
        assert_eq!(schedule.interval(), Limits::NORMAL.poll_backoff);
        schedule.note(Ok(&1));
        assert_eq!(schedule.interval(), Duration::from_secs(1));
    }

    #[test]
    fn the_templates_are_not_looked_at_before_a_limit_opens() {
        let mut schedule = PollSchedule::new(Duration::from_secs(1), &Limits::NORMAL);
        assert!(schedule.is_discovery_due());
        schedule.discover_after(Limits::NORMAL.rate_limit);
        assert!(!schedule.is_discovery_due());
        schedule.discover_after(Duration::ZERO);
        assert!(schedule.is_discovery_due());
    }
}
