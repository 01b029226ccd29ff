//! The demo engine: a scripted agent that needs no account and really works in its workspace.
//!
//! It runs as a process of its own, so that signals, floods and orphans are as real as with any other engine. It
//! speaks one JSON object a line; what is not one is plain text.

mod commit;
mod memory;
mod play;
mod said;
mod script;

use std::path::PathBuf;

use super::words::WordsReader;
use super::{
    Count, End, Engine, EngineWord, Event, Exit, FailureKind, Invocation, Reader, Request, Spent, Unfit,
    Usage, failure,
};
use crate::domain::run::EngineOutput;
pub use play::{linger, play};
use said::Said;

/// Tells the engine's process that it judges the work of others.
const REVIEWER: &str = "FLEET_DEMO_REVIEWER";
/// Tells it the conversation that it remembers or begins.
const SESSION: &str = "FLEET_DEMO_SESSION";
/// Tells it that people read what it prints: it obeys the task in a whole prompt, and remembers nothing.
const MEMBER: &str = "FLEET_DEMO_MEMBER";
/// About so many bytes make a token.
const TOKEN: usize = 4;
/// The hidden command of this binary that is the engine.
pub const COMMAND: &str = "demo-engine";

/// Calls this binary as the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demo {
    pub program: PathBuf,
}

/// Remembers what the script said last, and its end.
#[derive(Debug, Default)]
struct DemoReader {
    last: String,
    end: Option<End>,
}

/// Counts what the engine prints for people, which tells no figures.
#[derive(Debug, Default)]
struct WordCounter {
    words: WordsReader,
    n_written: usize,
}

impl Engine for Demo {
    fn word(&self) -> EngineWord {
        EngineWord::Demo
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, Unfit> {
        let reviewer = request.is_review.then(|| (REVIEWER.to_owned(), "1".to_owned()));
        let audience = match request.output {
            EngineOutput::Words => Some((MEMBER.to_owned(), "1".to_owned())),
            EngineOutput::Events | EngineOutput::Parts => {
                request.session.id().map(|id| (SESSION.to_owned(), id))
            }
        };
        Ok(Invocation {
            program: self.program.clone(),
            arguments: vec![COMMAND.into()],
            environment: reviewer.into_iter().chain(audience).collect(),
            secrets: Vec::new(),
            stdin: request.message.clone(),
        })
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        match request.output {
            EngineOutput::Words => Box::new(WordCounter::default()),
            EngineOutput::Events | EngineOutput::Parts => Box::new(DemoReader::default()),
        }
    }
}

impl Reader for DemoReader {
    fn line(&mut self, line: &str) -> Vec<Event> {
        match Said::read(line) {
            Said::Session { id } => vec![Event::Session(id)],
            Said::Text { text } => {
                self.last.clone_from(&text);
                vec![Event::Text(text)]
            }
            // It runs on this machine alone: that it costs nothing is known.
            Said::Usage { input_tokens, output_tokens } => {
                let run = Usage { input_tokens, output_tokens, cost_usd: Some(0.0) };
                vec![Event::Spent(Spent { run, session: Count::default() })]
            }
            Said::Complete { text } => self.ends(End::Complete { text }),
            Said::Question { text } => self.ends(End::Question { text }),
            Said::Failed { text } => self.ends(End::Failed { kind: FailureKind::EngineError, text }),
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Ending with 0 is success even without a word, because `exit 0` is one of its directives.
    fn end(self: Box<Self>, exit: &Exit) -> End {
        match self.end {
            Some(end) => end,
            None if exit.status.success() => End::Complete { text: self.last },
            None => End::Failed { kind: FailureKind::Crashed, text: failure::crash(exit) },
        }
    }
}

impl Reader for WordCounter {
    fn line(&mut self, line: &str) -> Vec<Event> {
        self.n_written += line.len() + 1;
        let run = Usage { input_tokens: 0, output_tokens: tokens(self.n_written), cost_usd: Some(0.0) };
        let mut events = self.words.line(line);
        events.push(Event::Spent(Spent { run, session: Count::default() }));
        events
    }

    fn end(self: Box<Self>, exit: &Exit) -> End {
        Box::new(self.words).end(exit)
    }
}

fn tokens(n_bytes: usize) -> u64 {
    u64::try_from(n_bytes.div_ceil(TOKEN)).unwrap_or(u64::MAX)
}

impl DemoReader {
    /// The last words are told to people too, unless they have just been said.
    fn ends(&mut self, end: End) -> Vec<Event> {
        let text = match &end {
            End::Complete { text } | End::Question { text } | End::Failed { text, .. } => text.as_str(),
            End::SessionLost => "",
        };
        let is_new = !text.is_empty() && text != self.last;
        let text = is_new.then(|| Event::Text(text.to_owned()));
        self.end = Some(end);
        text.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn end_of(lines: &[String], raw_status: i32) -> End {
        let mut reader = DemoReader::default();
        for line in lines {
            reader.line(line);
        }
        Box::new(reader).end(&Exit { status: ExitStatus::from_raw(raw_status), stderr: "boom\n".into() })
    }

    #[test]
    fn what_the_engine_tells_beats_how_its_process_ended() {
        let told = [Said::Question { text: "which one?".into() }.line()];
        assert_eq!(end_of(&told, 9), End::Question { text: "which one?".into() });
    }

    #[test]
    fn without_a_word_the_exit_code_decides() {
        let said = ["plain words".to_owned()];
        assert_eq!(end_of(&said, 0), End::Complete { text: "plain words".into() });
        let text = "the engine ended with exit status: 3: boom".to_owned();
        assert_eq!(end_of(&said, 3 << 8), End::Failed { kind: FailureKind::Crashed, text });
    }
}
