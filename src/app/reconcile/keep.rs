//! Keeps a reconciler running: again after a panic, until shutdown.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Runs a reconciler, which returns only after `stop`. Its workers, if it has any, end with it and are started again
/// from the store.
pub(super) async fn keep_running<F>(
    name: &'static str,
    retry: Duration,
    stop: CancellationToken,
    reconciler: impl Fn(CancellationToken) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    while let Err(error) = tokio::spawn(reconciler(stop.clone())).await {
        tracing::error!(%error, reconciler = name, "a reconciler panicked; it is restarted");
        if stop.run_until_cancelled(sleep(retry)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    const RETRY: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_reconciler_that_panics_runs_again_after_a_pause_and_not_after_stop() {
        let (stop, n_runs) = (CancellationToken::new(), AtomicUsize::new(0));
        let begun_at = Instant::now();
        let reconciler = |stop: CancellationToken| {
            let n_earlier = n_runs.fetch_add(1, Ordering::SeqCst);
            async move {
                if n_earlier == 2 {
                    stop.cancel();
                }
                panic!("run {n_earlier}");
            }
        };
        keep_running("test", RETRY, stop.clone(), reconciler).await;
        assert_eq!(n_runs.load(Ordering::SeqCst), 3);
        assert_eq!(begun_at.elapsed(), 2 * RETRY);
    }
}
