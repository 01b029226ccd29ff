//! The demo engine: a scripted agent that needs no account and works in its workspace.
//!
//! It runs as a separate process, so that signals, floods of output and orphans are as real as with any other engine.
//! It prints one JSON object per line; any other line is plain text.

mod commit;
mod line;
mod memory;
mod play;
mod script;

use std::path::PathBuf;

use super::plain_text::PlainTextReader;
use super::{
    ConversationUsage, Engine, EngineEnd, EngineEvent, EngineWord, Exit, FailureKind, Invocation,
    InvocationError, Reader, Request, RunUsage, Usage, failure,
};
use crate::domain::run::EngineOutput;
use line::DemoLine;
pub use play::{linger, play};

/// Set for a reviewer.
const REVIEWER: &str = "FLEET_DEMO_REVIEWER";
/// The id of the conversation to continue or to begin.
const SESSION: &str = "FLEET_DEMO_SESSION";
/// Set for a squad member: the output is plain text, the task is taken from the whole prompt, and nothing is stored.
const MEMBER: &str = "FLEET_DEMO_MEMBER";
/// The approximate number of bytes per token.
const TOKEN: usize = 4;
/// The hidden subcommand that runs the engine.
pub const COMMAND: &str = "demo-engine";

/// Calls this binary as the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demo {
    pub program: PathBuf,
}

/// Keeps the last text and the outcome.
#[derive(Debug, Default)]
struct DemoReader {
    last: String,
    end: Option<EngineEnd>,
}

/// Estimates usage from the length of plain text, which has no figures.
#[derive(Debug, Default)]
struct WordCounter {
    words: PlainTextReader,
    n_written: usize,
}

impl Engine for Demo {
    fn word(&self) -> EngineWord {
        EngineWord::Demo
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, InvocationError> {
        let reviewer = request.is_review.then(|| (REVIEWER.to_owned(), "1".to_owned()));
        let audience = match request.output {
            EngineOutput::Text => Some((MEMBER.to_owned(), "1".to_owned())),
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

    /// Of text, the usage is estimated.
    fn reports_usage(&self, _output: EngineOutput) -> bool {
        true
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        match request.output {
            EngineOutput::Text => Box::new(WordCounter::default()),
            EngineOutput::Events | EngineOutput::Parts => Box::new(DemoReader::default()),
        }
    }
}

impl Reader for DemoReader {
    fn line(&mut self, line: &str) -> Vec<EngineEvent> {
        match DemoLine::read(line) {
            DemoLine::Session { id } => vec![EngineEvent::Session(id)],
            DemoLine::Text { text } => {
                self.last.clone_from(&text);
                vec![EngineEvent::Text(text)]
            }
            // It runs on this machine only, so its cost is known to be zero.
            DemoLine::Usage { input_tokens, output_tokens } => {
                let run = Usage { input_tokens, output_tokens, cost_usd: Some(0.0) };
                vec![EngineEvent::Usage(RunUsage { run, session: ConversationUsage::default() })]
            }
            DemoLine::Complete { text } => self.ends(EngineEnd::Complete { text }),
            DemoLine::Question { text } => self.ends(EngineEnd::Question { text }),
            DemoLine::Failed { text } => {
                self.ends(EngineEnd::Failed { kind: FailureKind::EngineError, text })
            }
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Exit code 0 without an outcome is success, because `exit 0` is a directive.
    fn end(self: Box<Self>, exit: &Exit) -> EngineEnd {
        match self.end {
            Some(end) => end,
            None if exit.status.success() => EngineEnd::Complete { text: self.last },
            None => EngineEnd::Failed { kind: FailureKind::Crashed, text: failure::crash(exit) },
        }
    }
}

impl Reader for WordCounter {
    fn line(&mut self, line: &str) -> Vec<EngineEvent> {
        self.n_written += line.len() + 1;
        let run = Usage { input_tokens: 0, output_tokens: tokens(self.n_written), cost_usd: Some(0.0) };
        let mut events = self.words.line(line);
        events.push(EngineEvent::Usage(RunUsage { run, session: ConversationUsage::default() }));
        events
    }

    fn end(self: Box<Self>, exit: &Exit) -> EngineEnd {
        Box::new(self.words).end(exit)
    }
}

fn tokens(n_bytes: usize) -> u64 {
    u64::try_from(n_bytes.div_ceil(TOKEN)).unwrap_or(u64::MAX)
}

impl DemoReader {
    /// Also shows the text of the outcome, unless it was the last text shown.
    fn ends(&mut self, end: EngineEnd) -> Vec<EngineEvent> {
        let text = match &end {
            EngineEnd::Complete { text } | EngineEnd::Question { text } | EngineEnd::Failed { text, .. } => {
                text.as_str()
            }
            EngineEnd::SessionLost => "",
        };
        let is_new = !text.is_empty() && text != self.last;
        let text = is_new.then(|| EngineEvent::Text(text.to_owned()));
        self.end = Some(end);
        text.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn end_of(lines: &[String], raw_status: i32) -> EngineEnd {
        let mut reader = DemoReader::default();
        for line in lines {
            reader.line(line);
        }
        Box::new(reader).end(&Exit { status: ExitStatus::from_raw(raw_status), stderr: "boom\n".into() })
    }

    #[test]
    fn what_the_engine_tells_beats_how_its_process_ended() {
        let lines = [DemoLine::Question { text: "which one?".into() }.line()];
        assert_eq!(end_of(&lines, 9), EngineEnd::Question { text: "which one?".into() });
    }

    #[test]
    fn without_a_word_the_exit_code_decides() {
        let lines = ["plain words".to_owned()];
        assert_eq!(end_of(&lines, 0), EngineEnd::Complete { text: "plain words".into() });
        let text = "the engine ended with exit status: 3: boom".to_owned();
        assert_eq!(end_of(&lines, 3 << 8), EngineEnd::Failed { kind: FailureKind::Crashed, text });
    }
}
