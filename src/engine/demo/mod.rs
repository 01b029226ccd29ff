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

use super::{
    Count, End, Engine, EngineWord, Event, Exit, FailureKind, Invocation, Reader, Request, Session, Spent,
    Unfit, Usage, failure,
};
pub use play::{linger, play};
use said::Said;

/// Tells the engine's process that it judges the work of others.
const REVIEWER: &str = "FLEET_DEMO_REVIEWER";
/// Tells it the conversation that it remembers or begins.
const SESSION: &str = "FLEET_DEMO_SESSION";
/// Tells it that it is a member of a squad: its message is a whole prompt, and people read what it prints.
const MEMBER: &str = "FLEET_DEMO_MEMBER";
/// The hidden command of this binary that is the engine.
pub const COMMAND: &str = "demo-engine";

/// Calls this binary as the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demo {
    pub program: PathBuf,
}

/// The variables of every run as a member of a squad.
pub fn member_environment() -> Vec<(String, String)> {
    vec![(MEMBER.to_owned(), "1".to_owned())]
}

/// Remembers what the script said last, and its end.
#[derive(Debug, Default)]
struct DemoReader {
    last: String,
    end: Option<End>,
}

impl Engine for Demo {
    fn word(&self) -> EngineWord {
        EngineWord::Demo
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, Unfit> {
        let reviewer = request.is_review.then(|| (REVIEWER.to_owned(), "1".to_owned()));
        let session = match &request.session {
            Session::Fresh { id } => id.to_string(),
            Session::Opened { id } | Session::Resume { id, .. } => id.clone(),
        };
        Ok(Invocation {
            program: self.program.clone(),
            arguments: vec![COMMAND.into()],
            environment: reviewer.into_iter().chain([(SESSION.to_owned(), session)]).collect(),
            secrets: Vec::new(),
            stdin: request.message.clone(),
        })
    }

    fn reader(&self, _request: &Request) -> Box<dyn Reader> {
        Box::new(DemoReader::default())
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

    /// Ending with 0 is success even without a word, because `exit 0` is one of its directives.
    fn end(self: Box<Self>, exit: &Exit) -> End {
        match self.end {
            Some(end) => end,
            None if exit.status.success() => End::Complete { text: self.last },
            None => End::Failed { kind: FailureKind::Crashed, text: failure::crash(exit) },
        }
    }
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
