//! Reads one engine process: its output, its side file, and its usage.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Launch;
use super::output::Lines;
use super::side::Side;
use crate::engine::budget::Budget;
use crate::engine::{Event, Reader, Spent, Usage};

const CHUNK: usize = 64 * 1024;
/// The poll interval of the side file.
const GLANCE: Duration = Duration::from_millis(500);

/// An event of an engine process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    /// Ends with a line break.
    Text(String),
    /// The engine's process runs.
    Started,
    Session(String),
    Spent(Spent),
}

pub(super) struct Hearing<H> {
    pub(super) reader: Box<dyn Reader>,
    pub(super) spent: Spent,
    /// Canceled once the run has used up its budget.
    pub(super) over: CancellationToken,
    budget: Budget,
    side: Side,
    heard: H,
}

impl<H: FnMut(Heard)> Hearing<H> {
    pub(super) fn new(launch: &Launch<'_>, heard: H) -> Self {
        Self {
            reader: launch.engine.reader(&launch.request),
            spent: Spent { run: Usage::default(), session: launch.request.session.spent() },
            over: CancellationToken::new(),
            budget: launch.budget,
            side: Side::default(),
            heard,
        }
    }

    pub(super) fn started(&mut self) {
        (self.heard)(Heard::Started);
    }

    pub(super) async fn listen(&mut self, stdout: Option<impl AsyncRead + Unpin>) {
        let Some(mut stdout) = stdout else { return };
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        let mut glances = tokio::time::interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                read = stdout.read(&mut chunk) => match read {
                    Ok(n_read @ 1..) => self.hear(|events| lines.push(&chunk[..n_read], events)),
                    Ok(0) | Err(_) => break,
                },
                _ = glances.tick() => self.glance().await,
            }
        }
        self.hear(|events| lines.finish(events));
        self.glance().await;
    }

    /// Texts that arrive together are passed on together, so that a flood does not cause one event per line.
    fn hear(&mut self, lines: impl FnOnce(&mut dyn FnMut(&str))) {
        let mut events = Vec::new();
        lines(&mut |line| events.extend(self.reader.line(line)));
        self.tell(events);
    }

    async fn glance(&mut self) {
        let Some(file) = self.reader.side_file() else { return };
        let mut events = Vec::new();
        self.side.read(&file, |line| events.extend(self.reader.side_line(line))).await;
        self.tell(events);
    }

    fn tell(&mut self, events: Vec<Event>) {
        let mut said = String::new();
        for event in events {
            match event {
                Event::Text(text) => {
                    said.push_str(&text);
                    said.push('\n');
                }
                Event::Session(id) => (self.heard)(Heard::Session(id)),
                Event::Spent(spent) => self.account(spent),
            }
        }
        if !said.is_empty() {
            (self.heard)(Heard::Text(said));
        }
    }

    fn account(&mut self, spent: Spent) {
        if self.spent == spent {
            return;
        }
        self.spent = spent;
        (self.heard)(Heard::Spent(spent));
        if self.budget.check(&spent.run).is_err() {
            self.over.cancel();
        }
    }
}
