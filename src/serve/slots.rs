//! Tracks the open connections and which of them are idle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// A connection that is asked to close does so far sooner, or gets a request after all.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// All connections of one server.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    idle: Mutex<IdleConnections>,
    /// A connection has become idle.
    changed: Notify,
}

/// The close token of each idle connection, longest idle first.
#[derive(Debug, Default)]
struct IdleConnections {
    last_ticket: u64,
    closing: BTreeMap<u64, CancellationToken>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    requests: Mutex<Requests>,
    /// Another connection needs the slot.
    pub(super) closing: CancellationToken,
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct Requests {
    n_open: u32,
    has_been_any: bool,
    /// The position among the idle connections.
    ticket: u64,
}

/// A request that is open until its response is sent.
#[derive(Debug)]
pub(super) struct Busy(Arc<ConnectionSlot>);

impl ConnectionSlots {
    pub(super) fn new(n_slots: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(n_slots));
        Arc::new(Self { free, idle: Mutex::default(), changed: Notify::new() })
    }

    /// Returns a slot for a new connection; closes an idle one if none is free.
    pub(super) async fn take(self: &Arc<Self>) -> Arc<ConnectionSlot> {
        loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                return self.slot(Some(permit));
            }
            let is_one_closing = self.close_oldest();
            tokio::select! {
                // The semaphore is never closed, so this is always a permit.
                permit = Arc::clone(&self.free).acquire_owned() => return self.slot(permit.ok()),
                () = self.changed.notified(), if !is_one_closing => {}
                // A request arrived at that moment, and is answered first.
                () = tokio::time::sleep(CLOSING_TIME), if is_one_closing => {}
            }
        }
    }

    fn slot(self: &Arc<Self>, permit: Option<OwnedSemaphorePermit>) -> Arc<ConnectionSlot> {
        let closing = CancellationToken::new();
        let ticket = self.enter(closing.clone());
        let requests = Mutex::new(Requests { n_open: 0, has_been_any: false, ticket });
        Arc::new(ConnectionSlot { slots: Arc::clone(self), requests, closing, _permit: permit })
    }

    fn close_oldest(&self) -> bool {
        let oldest = lock(&self.idle).closing.pop_first();
        oldest.is_some_and(|(_, closing)| {
            closing.cancel();
            true
        })
    }

    fn enter(&self, closing: CancellationToken) -> u64 {
        let mut idle = lock(&self.idle);
        idle.last_ticket += 1;
        let ticket = idle.last_ticket;
        idle.closing.insert(ticket, closing);
        self.changed.notify_one();
        ticket
    }

    fn leave(&self, ticket: u64) {
        lock(&self.idle).closing.remove(&ticket);
    }
}

impl ConnectionSlot {
    pub(super) fn has_had_requests(&self) -> bool {
        lock(&self.requests).has_been_any
    }

    pub(super) fn is_busy(&self) -> bool {
        lock(&self.requests).n_open > 0
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.leave(lock(&self.requests).ticket);
    }
}

impl Busy {
    pub(super) fn begin(slot: &Arc<ConnectionSlot>) -> Self {
        let mut requests = lock(&slot.requests);
        requests.n_open += 1;
        requests.has_been_any = true;
        slot.slots.leave(requests.ticket);
        Self(Arc::clone(slot))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut requests = lock(&self.0.requests);
        requests.n_open -= 1;
        if requests.n_open == 0 {
            requests.ticket = self.0.slots.enter(self.0.closing.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
