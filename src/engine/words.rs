//! Reads a CLI that prints words for people: its exit code tells how it went.

use super::{End, Event, Exit, Reader, failure};

/// How much of the end of the output counts as the answer.
const MAX_ANSWER: usize = 4_000;

/// Remembers the end of what was printed.
#[derive(Debug, Default)]
pub(super) struct WordsReader {
    /// The conversation that the CLI was told to begin, until that is told on.
    session: Option<String>,
    answer: String,
}

impl WordsReader {
    /// Of a run that begins this conversation.
    pub(super) fn of(session: Option<String>) -> Self {
        Self { session, answer: String::new() }
    }
}

impl Reader for WordsReader {
    fn line(&mut self, line: &str) -> Vec<Event> {
        self.answer.push_str(line);
        self.answer.push('\n');
        let mut cut = self.answer.len().saturating_sub(MAX_ANSWER);
        while !self.answer.is_char_boundary(cut) {
            cut += 1;
        }
        self.answer.drain(..cut);
        // One that has spoken has begun.
        let session = self.session.take().map(Event::Session);
        session.into_iter().chain([Event::Text(line.to_owned())]).collect()
    }

    fn end(self: Box<Self>, exit: &Exit) -> End {
        if exit.status.success() {
            return End::Complete { text: self.answer.trim().to_owned() };
        }
        failure::without_outcome(exit)
    }
}
