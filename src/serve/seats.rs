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
pub(super) struct Seats {
    free: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    /// A connection has become idle.
    changed: Notify,
}

/// The close token of each idle connection, longest idle first.
#[derive(Debug, Default)]
struct Waiting {
    last_ticket: u64,
    closing: BTreeMap<u64, CancellationToken>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
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
pub(super) struct Busy(Arc<Seat>);

impl Seats {
    pub(super) fn new(n_seats: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(n_seats));
        Arc::new(Self { free, waiting: Mutex::default(), changed: Notify::new() })
    }

    /// Returns a slot for a new connection; closes an idle one if none is free.
    pub(super) async fn take(self: &Arc<Self>) -> Arc<Seat> {
        loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                return self.seat(Some(permit));
            }
            let is_one_closing = self.close_oldest();
            tokio::select! {
                // The semaphore is never closed, so this is always a permit.
                permit = Arc::clone(&self.free).acquire_owned() => return self.seat(permit.ok()),
                () = self.changed.notified(), if !is_one_closing => {}
                // A request arrived at that moment, and is answered first.
                () = tokio::time::sleep(CLOSING_TIME), if is_one_closing => {}
            }
        }
    }

    fn seat(self: &Arc<Self>, permit: Option<OwnedSemaphorePermit>) -> Arc<Seat> {
        let closing = CancellationToken::new();
        let ticket = self.enter(closing.clone());
        let requests = Mutex::new(Requests { n_open: 0, has_been_any: false, ticket });
        Arc::new(Seat { seats: Arc::clone(self), requests, closing, _permit: permit })
    }

    fn close_oldest(&self) -> bool {
        let oldest = lock(&self.waiting).closing.pop_first();
        oldest.is_some_and(|(_, closing)| {
            closing.cancel();
            true
        })
    }

    fn enter(&self, closing: CancellationToken) -> u64 {
        let mut waiting = lock(&self.waiting);
        waiting.last_ticket += 1;
        let ticket = waiting.last_ticket;
        waiting.closing.insert(ticket, closing);
        self.changed.notify_one();
        ticket
    }

    fn leave(&self, ticket: u64) {
        lock(&self.waiting).closing.remove(&ticket);
    }
}

impl Seat {
    pub(super) fn has_had_requests(&self) -> bool {
        lock(&self.requests).has_been_any
    }

    pub(super) fn is_busy(&self) -> bool {
        lock(&self.requests).n_open > 0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.leave(lock(&self.requests).ticket);
    }
}

impl Busy {
    pub(super) fn begin(seat: &Arc<Seat>) -> Self {
        let mut requests = lock(&seat.requests);
        requests.n_open += 1;
        requests.has_been_any = true;
        seat.seats.leave(requests.ticket);
        Self(Arc::clone(seat))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut requests = lock(&self.0.requests);
        requests.n_open -= 1;
        if requests.n_open == 0 {
            requests.ticket = self.0.seats.enter(self.0.closing.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
