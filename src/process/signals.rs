//! Signals: which ones ask this process to stop, and that its children ignore none that it was started to ignore.

use std::sync::OnceLock;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end or wake a process when another one sends them.
const ORDERS: [SignalKind; 7] = [
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::terminate(),
    SignalKind::alarm(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// The signals that ask for a clean stop.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// None where this process was started to ignore hang-ups, as by `nohup`.
    hangup: Option<Signal>,
}

impl StopSignals {
    /// From now on none of these signals ends this process. One that comes early is kept until it is waited for.
    pub(crate) fn listen() -> io::Result<Self> {
        let hangup = SignalKind::hangup();
        let hangup = if is_ignored_at_start(hangup) { None } else { Some(signal(hangup)?) };
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup })
    }

    /// Returns when the first of them comes.
    pub(crate) async fn received(mut self) {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => tracing::info!("asked to stop"),
            _ = self.interrupt.recv() => tracing::info!("interrupted; stopping"),
            _ = hung_up => tracing::info!("the terminal is gone; stopping"),
        }
    }
}

/// Lets the programs that this process starts from now on have the default action of every signal above. A program
/// inherits what is ignored, but not what is caught: so each ignored signal gets a handler that does nothing. Needs a
/// tokio runtime.
pub(crate) fn restore_for_children() -> io::Result<()> {
    for kind in ORDERS.into_iter().filter(|kind| is_ignored_at_start(*kind)) {
        // The handler stays when its stream is dropped.
        drop(signal(kind)?);
    }
    Ok(())
}

/// Whether this process was started to ignore the signal.
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
