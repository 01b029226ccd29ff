//! Reads a CLI that prints plain text: its exit code is the outcome.

use super::{EngineEnd, EngineEvent, Exit, Reader, failure};
use crate::domain::text::tail;

/// The size of the answer, taken from the end of the output.
const MAX_ANSWER: usize = 4_000;

/// Keeps the end of the output.
#[derive(Debug, Default)]
pub(super) struct PlainTextReader {
    /// The conversation that the CLI was started with, until the event about it.
    session: Option<String>,
    answer: String,
}

impl PlainTextReader {
    /// A reader for a run that begins this conversation.
    pub(super) fn of(session: Option<String>) -> Self {
        Self { session, answer: String::new() }
    }
}

impl Reader for PlainTextReader {
    fn line(&mut self, line: &str) -> Vec<EngineEvent> {
        self.answer.push_str(line);
        self.answer.push('\n');
        self.answer.drain(..self.answer.len() - tail(&self.answer, MAX_ANSWER).len());
        // The first output shows that the conversation exists.
        let session = self.session.take().map(EngineEvent::Session);
        session.into_iter().chain([EngineEvent::Text(line.to_owned())]).collect()
    }

    fn end(self: Box<Self>, exit: &Exit) -> EngineEnd {
        if exit.status.success() {
            return EngineEnd::Complete { text: self.answer.trim().to_owned() };
        }
        failure::without_outcome(exit)
    }
}
