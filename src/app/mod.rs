//! Use cases: what a caller may do with the fleet, one file per resource.
//!
//! [`Fleet`] is the only handle. Public methods check the caller's rights first, then read the snapshot or accept an
//! operation; only the reconcilers under [`reconcile`] act on Coder.

mod agent_app;
pub mod agents;
pub mod audit;
pub mod caller;
pub mod catalog;
mod clock;
pub mod discovery;
pub mod doctor;
mod engine_runs;
pub mod engines;
pub mod error;
pub mod fleet_status;
pub mod health;
mod here;
pub mod history;
pub mod logs;
mod metadata_reader;
pub mod operations;
mod provision;
pub mod reconcile;
pub mod rescue;
pub mod runs;
mod shutdown;
mod slots;
pub mod snapshot;
pub mod squads;
mod starts;
pub mod tasks;
#[cfg(feature = "test-hooks")]
mod test_doors;
pub mod tokens;
mod usage;
pub mod waiting;
mod workspace_exec;
mod workspace_facts;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::coder::Client;
use crate::domain::budget::Budget;
use crate::domain::clock::Clock;
use crate::domain::hosting::Hosting;
use crate::domain::limits::Limits;
pub(crate) use crate::hooks;
use crate::store::Store;
use agent_app::AppSlugs;
use catalog::Catalog;
use clock::FleetClock;
use discovery::Discovery;
use doctor::Inspection;
use engines::{EngineOptions, FoundEngines};
use health::Health;
use metadata_reader::MetadataReader;
use reconcile::failures::Failures;
use runs::ActiveRuns;
use slots::Slots;
use snapshot::Board;
use squads::SquadOptions;
use starts::StartReader;
use tokens::RefusedCalls;

/// The settings of the fleet.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Shortest time between two polls of Coder.
    pub poll_interval: Duration,
    /// Limit of concurrent workspace builds.
    pub parallel_builds: NonZeroUsize,
    /// A busy agent without a sign of life for this long is stuck.
    pub stuck_after: TimeDelta,
    pub limits: Limits,
    /// A build that takes longer counts as failed.
    pub build_timeout: Duration,
    /// The server's address in template parameters.
    pub public_url: Option<String>,
    /// The server's address for agents; without it agents get no token.
    pub callback_url: Option<String>,
    /// The default budget of an agent; its role may lower it.
    pub budget: Budget,
    /// The directory for the work of deleted agents.
    pub rescue_dir: PathBuf,
    /// Where workspaces run.
    pub hosting: Hosting,
    /// The engines of workspaces without our runner.
    pub engine: EngineOptions,
    pub squads: SquadOptions,
    /// The inputs of `doctor`.
    pub inspection: Inspection,
}

/// The fleet: the store, Coder, and the state known of both. Clones share everything.
#[derive(Debug, Clone)]
pub struct Fleet(Arc<FleetInner>);

#[derive(Debug)]
struct FleetInner {
    store: Store,
    coder: Client,
    catalog: Catalog,
    discovery: Discovery,
    board: Board,
    health: Health,
    slots: Slots,
    runs: ActiveRuns,
    metadata: MetadataReader,
    starts: StartReader,
    failures: Failures,
    app_slugs: AppSlugs,
    engines: FoundEngines,
    refused_calls: RefusedCalls,
    options: FleetOptions,
    clock: FleetClock,
    /// Triggers a poll before its time.
    poll_nudge: Notify,
    /// Triggers a poll even during a back-off.
    poll_force: Notify,
    /// Ends the reconcilers and the waits of callers at shutdown.
    stopping: CancellationToken,
    /// Wakes the executor of operations; the number only grows.
    operations: watch::Sender<u64>,
    /// Wakes the reconciler of tasks; the number only grows.
    tasks: watch::Sender<u64>,
    /// Wakes the reconciler of squads and the waits for a squad; the number only grows.
    squads: watch::Sender<u64>,
    /// Wakes calls whose token may have been revoked; the number only grows.
    tokens: watch::Sender<u64>,
}

impl Fleet {
    pub async fn open(
        store: Store,
        coder: Client,
        catalog: Catalog,
        options: FleetOptions,
    ) -> Result<Self, error::Error> {
        let fleet = Self(Arc::new(FleetInner {
            slots: Slots::new(options.parallel_builds),
            runs: ActiveRuns::default(),
            metadata: MetadataReader::new(coder.clone(), &options.limits),
            starts: StartReader::new(coder.clone(), &options.limits),
            failures: Failures::new(coder.clone()),
            app_slugs: AppSlugs::default(),
            engines: FoundEngines::default(),
            refused_calls: RefusedCalls::default(),
            discovery: Discovery::default(),
            board: Board::default(),
            health: Health::default(),
            clock: FleetClock::new(options.limits),
            poll_nudge: Notify::new(),
            poll_force: Notify::new(),
            operations: watch::Sender::new(0),
            tasks: watch::Sender::new(0),
            squads: watch::Sender::new(0),
            tokens: watch::Sender::new(0),
            stopping: CancellationToken::new(),
            store,
            coder,
            catalog,
            options,
        }));
        fleet.rescue_directory().sweep();
        // A full disk must not prevent the start: stops and deletes free space.
        if let Err(error) = fleet.store().audit_complete().await {
            tracing::warn!(%error, "audit rows of some operations are missing; the next start adds them");
        }
        fleet.board_load().await?;
        Ok(fleet)
    }

    pub fn health(&self) -> &Health {
        &self.0.health
    }

    /// Where workspaces run, which decides what a stop of the server does to them.
    pub fn hosting(&self) -> &Hosting {
        &self.options().hosting
    }

    /// Stops the fleet when it is canceled.
    pub fn stop_token(&self) -> CancellationToken {
        self.0.stopping.clone()
    }

    pub fn board(&self) -> &Board {
        &self.0.board
    }

    /// Pings the store, for readiness checks.
    pub async fn store_ping(&self) -> Result<(), error::Error> {
        Ok(self.0.store.ping().await?)
    }

    /// The number of open operations, for metrics.
    pub async fn operations_under_way(&self) -> Result<usize, error::Error> {
        Ok(self.0.store.operations_open().await?.len())
    }

    fn store(&self) -> &Store {
        &self.0.store
    }

    fn coder(&self) -> &Client {
        &self.0.coder
    }

    fn options(&self) -> &FleetOptions {
        &self.0.options
    }

    fn limits(&self) -> &Limits {
        &self.options().limits
    }

    /// The current time for rules.
    fn clock(&self) -> Clock {
        self.0.clock.read()
    }

    /// Polls Coder at once, even during a back-off: an external change may have ended the error.
    pub fn poll_now(&self) {
        self.0.poll_force.notify_one();
    }

    /// The server has changed something in Coder: poll soon.
    fn nudge_poll(&self) {
        self.0.poll_nudge.notify_one();
    }

    /// An operation was accepted or ended.
    fn nudge_operations(&self) {
        self.0.operations.send_modify(|n| *n += 1);
    }

    /// A squad was accepted, or one of its members has begun or ended.
    fn nudge_squads(&self) {
        self.0.squads.send_modify(|n| *n += 1);
    }

    /// A task was accepted, has changed, or was canceled.
    fn nudge_tasks(&self) {
        self.0.tasks.send_modify(|n| *n += 1);
    }
}
