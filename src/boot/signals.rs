//! When a person or the system asks this process to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Returns at SIGTERM or Ctrl-C.
pub(super) async fn asked_to_stop() {
    let mut terminate = signal(SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => tracing::info!("interrupted; stopping"),
        _ = terminated => tracing::info!("asked to stop"),
    }
}
