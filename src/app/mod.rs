//! Use cases: what a caller may do with the fleet, one file a resource.
//!
//! [`Fleet`] is the one handle. Callers' methods check rights first, then read the snapshot or accept an
//! operation; the reconcilers under [`reconcile`] do the rest and are the only ones that act on Coder.

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
pub mod tokens;
mod usage;
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

/// How the fleet is run.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Shortest time between two looks at Coder.
    pub poll_interval: Duration,
    /// Workspace builds that may run at once.
    pub parallel_builds: NonZeroUsize,
    /// Busy without a sign of life for this long is stuck.
    pub stuck_after: TimeDelta,
    pub limits: Limits,
    /// A build that takes longer than this has failed for us.
    pub build_timeout: Duration,
    /// Where templates are told that we can be reached.
    pub public_url: Option<String>,
    /// Where agents call us; without it they are given nothing.
    pub callback_url: Option<String>,
    /// What an agent may spend, unless its role says less.
    pub budget: Budget,
    /// Where the work of deleted agents is kept.
    pub rescue_dir: PathBuf,
    /// Where the agents live.
    pub hosting: Hosting,
    /// What works in workspaces without a runner of ours.
    pub engine: EngineOptions,
    pub squads: SquadOptions,
    /// What `doctor` may look at.
    pub inspection: Inspection,
}

/// The fleet: store, Coder and what is known of both. Clones share everything.
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
    /// Wakes the poller before its time.
    poll_nudge: Notify,
    /// Wakes it even while it backs off.
    poll_force: Notify,
    /// Ends the waits of callers when the server stops.
    stopping: CancellationToken,
    /// Wakes the executor of operations; the number only grows.
    operations: watch::Sender<u64>,
    /// Wakes those who bring tasks to agents; the number only grows.
    tasks: watch::Sender<u64>,
    /// Wakes those who carry squads on, and those who wait for one; the number only grows.
    squads: watch::Sender<u64>,
    /// Wakes those whose token may have been revoked; the number only grows.
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
            metadata: MetadataReader::new(coder.clone()),
            starts: StartReader::new(coder.clone()),
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
        // A full disk must not keep the server from starting: stops and deletes make room.
        if let Err(error) = fleet.store().audit_complete().await {
            tracing::warn!(%error, "audit rows of some operations are missing; the next start adds them");
        }
        fleet.board_load().await?;
        Ok(fleet)
    }

    pub fn health(&self) -> &Health {
        &self.0.health
    }

    /// Where the agents live, and so what becomes of them when the server stops.
    pub fn hosting(&self) -> &Hosting {
        &self.options().hosting
    }

    /// Is the server being stopped? Then nobody waits for anything any more.
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    pub fn board(&self) -> &Board {
        &self.0.board
    }

    /// Is the store answering? For readiness checks.
    pub async fn store_ping(&self) -> Result<(), error::Error> {
        Ok(self.0.store.ping().await?)
    }

    /// How many operations are accepted and not ended. For metrics.
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

    /// Now, as the rules see it.
    fn clock(&self) -> Clock {
        self.0.clock.read()
    }

    /// Looks at Coder now, also in trouble: something outside has changed that may end it.
    pub fn poll_now(&self) {
        self.0.poll_force.notify_one();
    }

    /// Something changed by our own hand: look at Coder soon.
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

    /// A task was accepted, moved, or somebody wants it ended.
    fn nudge_tasks(&self) {
        self.0.tasks.send_modify(|n| *n += 1);
    }
}
