//! Reads one engine process: its output, its side file, and its usage.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Launch;
use super::side::SideFileReader;
use crate::engine::budget::Budget;
use crate::engine::{Event, Lines, Reader, Spent, Usage};

const CHUNK: usize = 64 * 1024;
/// The poll interval of the side file.
const SIDE_FILE_POLL: Duration = Duration::from_millis(500);

/// An event of an engine process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EngineEvent {
    /// Ends with a line break.
    Text(String),
    /// The engine's process runs.
    Started,
    Session(String),
    Spent(Spent),
}

pub(super) struct OutputReader<H> {
    pub(super) reader: Box<dyn Reader>,
    pub(super) spent: Spent,
    /// Canceled once the run has used up its budget.
    pub(super) over: CancellationToken,
    budget: Budget,
    side: SideFileReader,
    on_event: H,
}

impl<H: FnMut(EngineEvent)> OutputReader<H> {
    pub(super) fn new(launch: &Launch<'_>, on_event: H) -> Self {
        Self {
            reader: launch.engine.reader(&launch.request),
            spent: Spent { run: Usage::default(), session: launch.request.session.spent() },
            over: CancellationToken::new(),
            budget: launch.budget,
            side: SideFileReader::default(),
            on_event,
        }
    }

    pub(super) fn started(&mut self) {
        (self.on_event)(EngineEvent::Started);
    }

    pub(super) async fn listen(&mut self, stdout: Option<impl AsyncRead + Unpin>) {
        let Some(mut stdout) = stdout else { return };
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        let mut side_file_polls = tokio::time::interval(SIDE_FILE_POLL);
        side_file_polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                read = stdout.read(&mut chunk) => match read {
                    Ok(n_read @ 1..) => self.hear(|events| lines.push(&chunk[..n_read], events)),
                    Ok(0) | Err(_) => break,
                },
                _ = side_file_polls.tick() => self.poll_side_file().await,
            }
        }
        self.hear(|events| lines.finish(events));
        self.poll_side_file().await;
    }

    /// Texts that arrive together are passed on together, so that a flood does not cause one event per line.
    fn hear(&mut self, lines: impl FnOnce(&mut dyn FnMut(&str))) {
        let mut events = Vec::new();
        lines(&mut |line| events.extend(self.reader.line(line)));
        self.emit(events);
    }

    async fn poll_side_file(&mut self) {
        let Some(file) = self.reader.side_file() else { return };
        let mut events = Vec::new();
        self.side.read(&file, |line| events.extend(self.reader.side_line(line))).await;
        self.emit(events);
    }

    fn emit(&mut self, events: Vec<Event>) {
        let mut said = String::new();
        for event in events {
            match event {
                Event::Text(text) => {
                    said.push_str(&text);
                    said.push('\n');
                }
                Event::Session(id) => (self.on_event)(EngineEvent::Session(id)),
                Event::Spent(spent) => self.account(spent),
            }
        }
        if !said.is_empty() {
            (self.on_event)(EngineEvent::Text(said));
        }
    }

    fn account(&mut self, spent: Spent) {
        if self.spent == spent {
            return;
        }
        self.spent = spent;
        (self.on_event)(EngineEvent::Spent(spent));
        if self.budget.check(&spent.run).is_err() {
            self.over.cancel();
        }
    }
}
