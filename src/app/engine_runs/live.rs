//! Reads an engine's output while it runs: counts its usage, and stops it once the usage exceeds the budget.

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::usage::{CountedRun, figures_of};
use crate::domain::run::{CancelCause, EngineRun, KEPT_OUTPUT, Run, RunStream};
use crate::domain::usage::{Figures, Spender};
use crate::engine::{EngineEvent, Lines, Reader, Request, RunUsage, Session, Spending, Usage, commands};

/// The read position in the stored output of one run. After a restart the output is read again from its beginning.
pub(in crate::app) struct LiveReading {
    pub(super) reader: Box<dyn Reader>,
    spender: Spender,
    is_free: bool,
    lines: Lines,
    offset: u64,
    pub(super) progress: EngineProgress,
}

/// Facts that the engine's output has shown so far.
#[derive(Debug, Default)]
pub(super) struct EngineProgress {
    pub(super) conversation: Option<String>,
    /// The usage of the conversation before the run.
    before: Figures,
    /// None until the engine reports usage.
    used: Option<Usage>,
    /// The highest count of the run, or of its conversation including the run.
    counted: Option<Figures>,
    /// Figures came after the outcome.
    continues: bool,
    /// The conversation of the usage figures, as known when the first figures were reported.
    counted_for: Option<String>,
}

impl LiveReading {
    /// None for a run without an engine.
    pub(in crate::app) fn of(run: &Run) -> Option<Self> {
        let EngineRun { engine, output, spender, model, conversation, before } = run.engine.as_ref()?;
        let request = Request {
            output: *output,
            model: model.clone(),
            ..Request::bare(String::new(), Session::Unnamed)
        };
        let progress = EngineProgress {
            conversation: conversation.clone(),
            before: *before,
            ..EngineProgress::default()
        };
        Some(Self {
            reader: commands::output_reader(*engine, &request),
            spender: *spender,
            is_free: engine.is_free(),
            lines: Lines::default(),
            offset: 0,
            progress,
        })
    }

    /// Reads to the end of the stored output.
    pub(super) async fn advance(
        &mut self,
        fleet: &Fleet,
        run: &Run,
        mut on_text: impl FnMut(String),
    ) -> Result<(), Error> {
        loop {
            let page = fleet.run_output(run.id, RunStream::Stdout, self.offset, KEPT_OUTPUT).await?;
            if page.bytes.is_empty() {
                return Ok(());
            }
            self.offset += page.bytes.len() as u64;
            let (lines, reader, progress) = (&mut self.lines, &mut self.reader, &mut self.progress);
            lines.push(&page.bytes, &mut |line| progress.read(&mut **reader, line, &mut on_text));
        }
    }

    /// Reads a last line without a line break. Nothing is read after this.
    pub(super) fn finish(&mut self, mut on_text: impl FnMut(String)) {
        let (reader, progress) = (&mut self.reader, &mut self.progress);
        std::mem::take(&mut self.lines).finish(&mut |line| progress.read(&mut **reader, line, &mut on_text));
    }

    /// Whether the engine has reported its outcome and no figures since: an outcome has the last figures, so further
    /// ones mean that the engine still runs.
    pub(super) fn has_finished(&self) -> bool {
        self.reader.is_over() && !self.progress.continues
    }
}

impl EngineProgress {
    fn read(&mut self, reader: &mut dyn Reader, line: &str, on_text: &mut impl FnMut(String)) {
        let was_over = reader.is_over();
        for event in reader.line(line) {
            self.continues |= was_over && matches!(event, EngineEvent::Usage(_));
            self.take(event, on_text);
        }
    }

    fn take(&mut self, event: EngineEvent, on_text: &mut impl FnMut(String)) {
        match event {
            EngineEvent::Text(text) => on_text(text),
            EngineEvent::Session(id) => {
                self.conversation.get_or_insert(id);
            }
            EngineEvent::Usage(spent) => {
                if self.used.is_none() {
                    self.counted_for.clone_from(&self.conversation);
                }
                self.used = Some(spent.run);
                let counted = self.counted_so_far(&spent);
                self.counted = Some(self.counted.map_or(counted, |known| known.raised_by(&counted)));
            }
        }
    }

    /// A total by the engine includes the conversation's earlier runs, except for those that were killed.
    fn counted_so_far(&self, spent: &RunUsage) -> Figures {
        let is_total = spent.session.reported != Spending::default();
        let earlier = if is_total { Figures::default() } else { self.before };
        earlier.plus(&figures_of(spent.run))
    }
}

impl Fleet {
    /// Reads and counts new output, and cancels a run that has exceeded its budget.
    pub(in crate::app) async fn engine_run_read(
        &self,
        run: &Run,
        reading: &mut LiveReading,
    ) -> Result<(), Error> {
        let known = reading.progress.used;
        reading.advance(self, run, drop).await?;
        let Some(used) = reading.progress.used else { return Ok(()) };
        if known == Some(used) {
            return Ok(());
        }
        self.usage_of_run(reading.usage(run)).await?;
        if run.cancel.is_none() && !reading.has_finished() && self.is_over_budget(run, reading.spender, &used)
        {
            tracing::info!(run.id = %run.id, run.purpose = run.purpose, "a run has used up its budget");
            self.run_cancel(run.id, CancelCause::Budget).await?;
            point("run.over_budget");
        }
        Ok(())
    }

    /// Counts the usage of a run that is over, from where the reading stands; idempotent.
    pub(in crate::app) async fn engine_run_count(
        &self,
        run: &Run,
        reading: &mut Option<LiveReading>,
    ) -> Result<(), Error> {
        let Some(reading) = reading else { return Ok(()) };
        reading.advance(self, run, drop).await?;
        reading.finish(drop);
        if reading.progress.used.is_none() && reading.is_free {
            return Ok(());
        }
        // Figures in the part that was not stored are missing from the count.
        if run.stdout > KEPT_OUTPUT && !reading.reader.is_over() {
            let spender = reading.spender;
            self.usage_of_run(CountedRun { run, spender, conversation: None, reported: None }).await?;
        }
        self.usage_of_run(reading.usage(run)).await
    }
}

impl LiveReading {
    fn usage<'a>(&'a self, run: &'a Run) -> CountedRun<'a> {
        // The demo engine counts each run by itself; the others count over a conversation.
        let conversation = self.progress.counted_for.as_deref().filter(|_| !self.is_free);
        CountedRun { run, spender: self.spender, conversation, reported: self.progress.counted }
    }
}
