//! The admission queue: limits concurrent workspace builds, first come, first served.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(super) struct Slots {
    free: Arc<Semaphore>,
    total: usize,
    queued: Arc<AtomicU64>,
}

/// Permission for one build, returned on drop.
#[derive(Debug)]
pub(super) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotUse {
    pub used: u64,
    pub free: u64,
    pub queued: u64,
}

/// Counts a waiter until it is dropped.
struct Waiting(Arc<AtomicU64>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slots {
    pub(super) fn new(total: NonZeroUsize) -> Self {
        Self { free: Arc::new(Semaphore::new(total.get())), total: total.get(), queued: Arc::default() }
    }

    /// A free slot; waiters in the queue go first.
    pub(super) fn take_now(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(Slot { _permit: Some(permit) })
    }

    pub(super) async fn take(&self) -> Slot {
        self.queued.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&self.queued));
        // The semaphore is never closed, so that the wait ends with a permit.
        Slot { _permit: Arc::clone(&self.free).acquire_owned().await.ok() }
    }

    pub(super) fn in_use(&self) -> SlotUse {
        let free = self.free.available_permits();
        SlotUse {
            used: (self.total - free.min(self.total)) as u64,
            free: free as u64,
            queued: self.queued.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_in_line_waits_until_a_slot_is_given_back() {
        let slots = Slots::new(NonZeroUsize::new(1).unwrap());
        let first = slots.take().await;
        assert_eq!(slots.in_use(), SlotUse { used: 1, free: 0, queued: 0 });
        {
            let mut second = Box::pin(slots.take());
            assert!(futures_util::poll!(second.as_mut()).is_pending());
            assert_eq!(slots.in_use(), SlotUse { used: 1, free: 0, queued: 1 });
            drop(first);
            assert!(slots.take_now().is_none(), "the next in line has it");
            let _second = second.await;
            assert_eq!(slots.in_use(), SlotUse { used: 1, free: 0, queued: 0 });
        }
        assert_eq!(slots.in_use(), SlotUse { used: 0, free: 1, queued: 0 });
        assert!(slots.take_now().is_some());
    }
}
