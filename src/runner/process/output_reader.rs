//! Reads one engine process: its output, its session log, and its usage.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Launch;
use super::session_log::SessionLogReader;
use crate::engine::budget::Budget;
use crate::engine::{EngineEvent, Lines, Reader, RunUsage, Usage};

const CHUNK: usize = 64 * 1024;

/// An event of an engine process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProcessEvent {
    /// Ends with a line break.
    Text(String),
    /// The engine's process runs.
    Started,
    Session(String),
    Usage(RunUsage),
}

pub(super) struct OutputReader<H> {
    pub(super) reader: Box<dyn Reader>,
    pub(super) spent: RunUsage,
    /// Canceled once the run has used up its budget.
    pub(super) over: CancellationToken,
    budget: Budget,
    log: SessionLogReader,
    session_log_poll: Duration,
    on_event: H,
}

impl<H: FnMut(ProcessEvent)> OutputReader<H> {
    pub(super) fn new(launch: &Launch<'_>, on_event: H) -> Self {
        Self {
            reader: launch.engine.reader(&launch.request),
            spent: RunUsage { run: Usage::default(), session: launch.request.session.usage_before() },
            over: CancellationToken::new(),
            budget: launch.budget,
            log: SessionLogReader::default(),
            session_log_poll: launch.limits.session_log_poll,
            on_event,
        }
    }

    pub(super) fn started(&mut self) {
        (self.on_event)(ProcessEvent::Started);
    }

    pub(super) async fn listen(&mut self, stdout: Option<impl AsyncRead + Unpin>) {
        let Some(mut stdout) = stdout else { return };
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        let mut log_polls = tokio::time::interval(self.session_log_poll);
        log_polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                read = stdout.read(&mut chunk) => match read {
                    Ok(n_read @ 1..) => self.hear(|events| lines.push(&chunk[..n_read], events)),
                    Ok(0) | Err(_) => break,
                },
                _ = log_polls.tick() => self.poll_session_log().await,
            }
        }
        self.hear(|events| lines.finish(events));
        self.poll_session_log().await;
    }

    /// Texts that arrive together are passed on together, so that a flood does not cause one event per line.
    fn hear(&mut self, lines: impl FnOnce(&mut dyn FnMut(&str))) {
        let mut events = Vec::new();
        lines(&mut |line| events.extend(self.reader.line(line)));
        self.emit(events);
    }

    async fn poll_session_log(&mut self) {
        let Some(file) = self.reader.session_log() else { return };
        let mut events = Vec::new();
        self.log.read(&file, |line| events.extend(self.reader.session_log_line(line))).await;
        self.emit(events);
    }

    fn emit(&mut self, events: Vec<EngineEvent>) {
        let mut texts = String::new();
        for event in events {
            match event {
                EngineEvent::Text(text) => {
                    texts.push_str(&text);
                    texts.push('\n');
                }
                EngineEvent::Session(id) => (self.on_event)(ProcessEvent::Session(id)),
                EngineEvent::Usage(spent) => self.account(spent),
            }
        }
        if !texts.is_empty() {
            (self.on_event)(ProcessEvent::Text(texts));
        }
    }

    fn account(&mut self, spent: RunUsage) {
        if self.spent == spent {
            return;
        }
        self.spent = spent;
        (self.on_event)(ProcessEvent::Usage(spent));
        if self.budget.check(&spent.run).is_err() {
            self.over.cancel();
        }
    }
}
