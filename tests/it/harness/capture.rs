//! Catches what is logged, for tests of what must never be.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that any library under us traces on this thread while the guard lives.
pub(crate) struct Capture {
    captured: Captured,
    _guard: tracing::subscriber::DefaultGuard,
    /// With a single subscriber alive, a call site first met by another test's thread would count as unwanted
    /// for good; a second subscriber makes tracing ask all of them.
    _second: tracing::Dispatch,
}

impl Capture {
    pub(crate) fn start() -> Self {
        let captured = Captured::default();
        let writer = captured.clone();
        let second = tracing::Dispatch::new(tracing_subscriber::registry());
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_writer(move || writer.clone())
            .finish();
        Self { captured, _guard: tracing::subscriber::set_default(subscriber), _second: second }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.captured.0.lock().unwrap().clone()).unwrap()
    }
}
