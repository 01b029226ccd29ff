//! Handles signals: which ones request a stop, and that children ignore none of them.

use std::sync::OnceLock;
use std::{fs, io, process};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The signals that end or wake a process when another one sends them.
const HANDLED: [SignalKind; 7] = [
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::terminate(),
    SignalKind::alarm(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// The signals that request a clean stop.
#[derive(Debug)]
pub(crate) struct StopSignals {
    /// A signal has arrived.
    asked: CancellationToken,
    /// The start has completed, so the first signal leads to a clean stop.
    awaited: CancellationToken,
    _watch: AbortOnDropHandle<()>,
}

impl StopSignals {
    /// From now on the first of these signals does not end this process, but is kept until it is awaited. A start
    /// can hang, so the same signal once more ends this process at once, even while the start blocks its thread.
    pub(crate) fn listen() -> io::Result<Self> {
        let (asked, awaited) = (CancellationToken::new(), CancellationToken::new());
        let watch = watch(Streams::open()?, asked.clone(), awaited.clone());
        Ok(Self { asked, awaited, _watch: AbortOnDropHandle::new(tokio::spawn(watch)) })
    }

    /// Returns when the first of them arrives.
    pub(crate) async fn received(self) {
        self.awaited.cancel();
        self.asked.cancelled().await;
    }
}

async fn watch(mut streams: Streams, asked: CancellationToken, awaited: CancellationToken) {
    let first = streams.next().await;
    tracing::info!("{}", stop_message(first));
    asked.cancel();
    // A service manager may send a hangup right after the stop signal: only a repetition of the first counts.
    let repeated = async { while streams.next().await != first {} };
    if awaited.run_until_cancelled(repeated).await.is_some() {
        tracing::warn!("second request to stop during the start; exiting at once");
        process::exit(128 + first.as_raw_value());
    }
}

fn stop_message(kind: SignalKind) -> &'static str {
    if kind == SignalKind::interrupt() {
        return "interrupted; stopping";
    }
    if kind == SignalKind::hangup() { "the terminal was closed; stopping" } else { "stop requested" }
}

struct Streams {
    terminate: Signal,
    interrupt: Signal,
    /// None if this process was started with hangups ignored, as by `nohup`.
    hangup: Option<Signal>,
}

impl Streams {
    fn open() -> io::Result<Self> {
        let hangup = SignalKind::hangup();
        let hangup = if is_ignored_at_start(hangup) { None } else { Some(signal(hangup)?) };
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup })
    }

    async fn next(&mut self) -> SignalKind {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = hung_up => SignalKind::hangup(),
        }
    }
}

/// Gives children the default action of every signal above. A program inherits ignored signals, but not handlers:
/// so each ignored signal gets a handler that does nothing. Requires a tokio runtime.
pub(crate) fn restore_for_children() -> io::Result<()> {
    for kind in HANDLED.into_iter().filter(|kind| is_ignored_at_start(*kind)) {
        // The handler stays after its stream is dropped.
        drop(signal(kind)?);
    }
    Ok(())
}

/// Whether this process was started with the signal ignored.
fn is_ignored_at_start(kind: SignalKind) -> bool {
    static IGNORED: OnceLock<u64> = OnceLock::new();
    let ignored =
        *IGNORED.get_or_init(|| ignored_in(&fs::read_to_string("/proc/self/status").unwrap_or_default()));
    u32::try_from(kind.as_raw_value() - 1).is_ok_and(|bit| ignored & (1 << bit) != 0)
}

/// One bit per signal.
fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored_in("SigBlk:\t0\nSigIgn:\t0000000000001007\nSigCgt:\t2\n"), 0x1007);
        assert_eq!(ignored_in("Name:\tx\n"), 0);
    }
}
