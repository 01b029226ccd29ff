//! The worker pool: one worker per key of open work, started again after an error or a panic, awaited at shutdown.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;
use tracing::Instrument;

use crate::app::error::Error;
use crate::domain::limits::Limits;

/// When a pool acts without a nudge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pauses {
    /// The interval at which open work is read.
    pub(super) read: Duration,
    /// The pause before a failed read is repeated, and before a key whose worker failed gets a new worker.
    pub(super) retry: Duration,
}

impl Pauses {
    pub(super) fn of(limits: &Limits) -> Self {
        Self { read: limits.work_read, retry: limits.work_retry }
    }
}

/// The pool's step after a worker has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The key may have more work.
    ReadOpenWork,
    /// The remaining work cannot continue before the next nudge or read.
    AwaitNudge,
}

type WorkerResult = Result<Next, Error>;

/// The workers of one kind of work. `H` is the reconciler's handle of each live worker, to wake or stop it.
///
/// A reconciler is a loop: `while pool.turn(nudge).await { read open work; start a worker for each key }`.
#[derive(Debug)]
pub(super) struct Pool<K, H = ()> {
    kind: &'static str,
    pauses: Pauses,
    next_read: Instant,
    workers: JoinMap<K, WorkerResult>,
    handles: HashMap<K, H>,
    /// Keys whose worker failed, with the end of their pause.
    paused: HashMap<K, Instant>,
    stop: CancellationToken,
}

impl<K, H> Pool<K, H>
where
    K: Copy + Display + Eq + Hash + Send + 'static,
{
    pub(super) fn new(kind: &'static str, pauses: Pauses, stop: CancellationToken) -> Self {
        Self {
            kind,
            pauses,
            next_read: Instant::now(),
            workers: JoinMap::new(),
            handles: HashMap::new(),
            paused: HashMap::new(),
            stop,
        }
    }

    /// Returns true when open work should be read: at the start, on a nudge, by the timer, and after a worker that
    /// may have left work. Returns false at shutdown, once all workers have ended.
    pub(super) async fn turn(&mut self, nudge: impl Future) -> bool {
        let mut nudge = std::pin::pin!(nudge);
        loop {
            let due = self.due();
            tokio::select! {
                // Free the key first: a nudge may be meant for it.
                biased;
                () = self.stop.cancelled() => {
                    self.drain().await;
                    return false;
                }
                Some((key, ended)) = self.workers.join_next() => {
                    if self.free(key, ended) == Next::AwaitNudge {
                        continue;
                    }
                }
                _ = &mut nudge => {}
                () = sleep_until(due) => {}
            }
            let now = Instant::now();
            self.paused.retain(|_, until| *until > now);
            self.next_read = now + self.pauses.read;
            return true;
        }
    }

    /// Reports a failed read of open work, which the timer repeats soon.
    pub(super) fn read_failed(&mut self, error: &Error) {
        self.retry_soon("open work could not be read; retrying", error);
    }

    /// Reports a failure of the reconciler itself; open work is read again soon.
    pub(super) fn retry_soon(&mut self, failure: &str, error: &Error) {
        tracing::error!(%error, worker.kind = self.kind, "{failure}");
        self.next_read = Instant::now() + self.pauses.retry;
    }

    /// Starts a worker that returns soon after `stop`, unless the key has a worker or is paused.
    pub(super) fn start_with<F>(&mut self, key: K, handle: H, worker: F)
    where
        F: Future<Output = WorkerResult> + Send + 'static,
    {
        if self.handles.contains_key(&key) || self.paused.contains_key(&key) {
            return;
        }
        let span = tracing::info_span!("worker", worker.kind = self.kind, worker.key = %key);
        self.handles.insert(key, handle);
        self.workers.spawn(key, worker.instrument(span));
    }

    /// The handle of the key's live worker.
    pub(super) fn handle(&mut self, key: &K) -> Option<&mut H> {
        self.handles.get_mut(key)
    }

    pub(super) fn n_workers(&self) -> usize {
        self.handles.len()
    }

    /// The token that stops all workers at shutdown.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    fn due(&self) -> Instant {
        self.paused.values().copied().fold(self.next_read, Instant::min)
    }

    fn free(&mut self, key: K, ended: Result<WorkerResult, JoinError>) -> Next {
        self.handles.remove(&key);
        let (kind, key_text) = (self.kind, key.to_string());
        match ended {
            Ok(Ok(next)) => return next,
            Ok(Err(error)) => {
                tracing::error!(
                    %error, worker.kind = kind, worker.key = key_text,
                    "a worker failed; it is restarted"
                );
            }
            Err(error) => {
                tracing::error!(
                    %error, worker.kind = kind, worker.key = key_text,
                    "a worker panicked; it is restarted"
                );
            }
        }
        self.paused.insert(key, Instant::now() + self.pauses.retry);
        Next::AwaitNudge
    }

    async fn drain(&mut self) {
        while let Some((key, ended)) = self.workers.join_next().await {
            self.free(key, ended);
        }
    }
}

impl<K> Pool<K>
where
    K: Copy + Display + Eq + Hash + Send + 'static,
{
    /// Starts a worker that may be dropped at any await: the next worker continues from the store.
    pub(super) fn start<F>(&mut self, key: K, worker: F)
    where
        F: Future<Output = WorkerResult> + Send + 'static,
    {
        let stop = self.stop.clone();
        let worker = async move { stop.run_until_cancelled(worker).await.unwrap_or(Ok(Next::AwaitNudge)) };
        self.start_with(key, (), worker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::{Notify, mpsc};

    use super::*;

    /// Longer than any of these tests.
    const RETRY: Duration = Duration::from_millis(100);
    const PAUSES: Pauses = Pauses { read: Duration::from_secs(3600), retry: RETRY };

    /// A nudge that never comes.
    fn no_nudge() -> impl Future<Output = ()> {
        std::future::pending()
    }

    #[tokio::test]
    async fn a_worker_that_panics_runs_again_and_leaves_the_others_alone() {
        let (stop, starts) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let mut pool: Pool<&str> = Pool::new("test", PAUSES, stop.clone());
        let (began, mut beginnings) = mpsc::unbounded_channel();
        let begun_at = Instant::now();
        let running = async {
            while pool.turn(no_nudge()).await {
                for key in ["steady", "broken"] {
                    let (starts, began) = (Arc::clone(&starts), began.clone());
                    pool.start(key, async move {
                        let n_starts = starts.fetch_add(1, Ordering::SeqCst);
                        began.send(key).unwrap();
                        assert!(key != "broken" || n_starts >= 2, "the first worker of this key breaks");
                        std::future::pending().await
                    });
                }
            }
        };
        let watching = async {
            let mut seen = Vec::new();
            while seen.len() < 3 {
                seen.push(beginnings.recv().await.unwrap());
            }
            stop.cancel();
            seen
        };
        let ((), mut seen) = tokio::join!(running, watching);
        assert_eq!(seen.pop(), Some("broken"), "only the key that panicked has a second worker");
        seen.sort_unstable();
        assert_eq!(seen, ["broken", "steady"]);
        assert!(begun_at.elapsed() >= RETRY, "it ran again without a pause");
    }

    #[tokio::test]
    async fn a_nudge_does_not_shorten_the_pause_of_a_key_that_failed() {
        let stop = CancellationToken::new();
        let mut pool: Pool<&str> = Pool::new("test", PAUSES, stop);
        assert!(pool.turn(no_nudge()).await);
        pool.start("failing", async { Err(Error::invalid("x", "it fails")) });
        assert!(pool.turn(no_nudge()).await, "the end of its pause is a reason to read");
        let (key, ended) = ("other", Ok(Err(Error::invalid("x", "it fails"))));
        pool.free(key, ended);
        assert!(pool.turn(async {}).await);
        pool.start(key, std::future::pending());
        pool.start("failing", std::future::pending());
        assert_eq!(pool.handles.keys().copied().collect::<Vec<_>>(), ["failing"]);
    }

    #[tokio::test]
    async fn a_failed_read_is_repeated_by_the_timer() {
        let mut pool: Pool<&str> = Pool::new("test", PAUSES, CancellationToken::new());
        assert!(pool.turn(no_nudge()).await);
        pool.read_failed(&Error::invalid("x", "the disk is away"));
        let repeated = tokio::time::timeout(RETRY * 100, pool.turn(no_nudge())).await;
        assert_eq!(repeated.ok(), Some(true));
    }

    #[tokio::test]
    async fn shutdown_waits_for_a_worker_that_is_on_its_way_to_a_safe_point() {
        let stop = CancellationToken::new();
        let mut pool: Pool<&str, ()> = Pool::new("test", PAUSES, stop.clone());
        assert!(pool.turn(no_nudge()).await);
        let (released, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (release, at_end) = (Arc::clone(&released), Arc::clone(&ended));
        pool.start_with("slow", (), async move {
            release.notified().await;
            at_end.store(1, Ordering::SeqCst);
            Ok(Next::ReadOpenWork)
        });
        stop.cancel();
        let (goes_on, ()) = tokio::join!(pool.turn(no_nudge()), async { released.notify_one() });
        assert_eq!((goes_on, ended.load(Ordering::SeqCst)), (false, 1));
    }
}
