//! The demo engine's process: reads a message, does what it says, and tells about it line by line.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::commit::{commit, is_repository};
use super::memory::{Memory, Progress};
use super::said::Said;
use super::script::{Directive, directives};
use super::{COMMAND, MEMBER, REVIEWER, tokens};
use crate::domain::squad;
use crate::domain::task::GO_ON;

/// Even what is meant to stay for ever ends some day, should nobody come for it.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// A line of `print`, as long as lines of programs are.
const PRINTED: &[u8] = b"This line is one of many that the demo engine prints when it is asked for output.\n";
const PRINTED_AT_ONCE: usize = 500;

/// The message comes on standard input, the work happens in the current directory.
pub async fn play() -> ExitCode {
    let mut message = String::new();
    let audience = if std::env::var_os(MEMBER).is_some() { Audience::People } else { Audience::Reader };
    let memory = match audience {
        Audience::Reader => Memory::of_environment(),
        Audience::People => Memory::default(),
    };
    let mut stage = Stage { out: io::stdout(), audience, memory, n_spoken: 0, last_said: String::new() };
    let played = match (io::stdin().read_to_string(&mut message), audience) {
        (Ok(_), Audience::Reader) => stage.play(&message).await,
        (Ok(_), Audience::People) => stage.play(squad::task_of(&message)).await,
        (Err(error), _) => Err(error),
    };
    match played {
        Ok(code) => ExitCode::from(code),
        // Nobody listens any more; there is nobody to tell either.
        Err(_) => ExitCode::FAILURE,
    }
}

/// The process that `fork` leaves behind: in a session of its own, holding on to our output.
pub async fn linger() -> ExitCode {
    match rustix::process::setsid() {
        Ok(_) => {
            tokio::time::sleep(FOR_EVER).await;
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// What comes after a directive.
enum Step {
    Next(String),
    End(Said),
    Exit(u8),
}

/// For whom it prints.
#[derive(Clone, Copy)]
enum Audience {
    /// A reader of ours, which takes an object a line.
    Reader,
    /// People, who want the words alone, and each of them once.
    People,
}

struct Stage<W> {
    out: W,
    audience: Audience,
    memory: Memory,
    n_spoken: usize,
    last_said: String,
}

impl<W: Write> Stage<W> {
    async fn play(&mut self, message: &str) -> io::Result<u8> {
        if let Some(id) = self.memory.session().map(str::to_owned) {
            self.tell(&Said::Session { id })?;
        }
        let unfinished = self.memory.unfinished().filter(|_| message.trim_end() == GO_ON);
        self.play_from(unfinished.unwrap_or_else(|| Progress::begin(message))).await
    }

    async fn play_from(&mut self, mut progress: Progress) -> io::Result<u8> {
        let (message, mut last) = (progress.message.clone(), String::new());
        for directive in script(&message).into_iter().skip(progress.n_done) {
            // On a full disk the work goes on; after a stop it cannot be taken up again.
            let _forgotten = self.memory.keep(&progress);
            match self.obey(directive, progress.step).await? {
                Step::Next(told) => {
                    last = told;
                    self.account(&message)?;
                }
                Step::End(said) => return self.end(&message, &said),
                Step::Exit(code) => return Ok(code),
            }
            progress.advance();
        }
        self.end(&message, &Said::Complete { text: last })
    }

    async fn obey(&mut self, directive: Directive, step: Uuid) -> io::Result<Step> {
        Ok(match directive {
            Directive::Sleep(time) => {
                tokio::time::sleep(time).await;
                Step::Next("slept".to_owned())
            }
            Directive::Fail(text) => Step::End(Said::Failed { text }),
            Directive::Ask(text) => Step::End(Said::Question { text }),
            Directive::Print(n_bytes) => self.print(n_bytes)?,
            Directive::Hang => hang().await?,
            Directive::Wait => {
                self.say(&Said::Text { text: "waiting to be told what to do".to_owned() })?;
                tokio::time::sleep(FOR_EVER).await;
                Step::Next("waited".to_owned())
            }
            Directive::Fork => fork()?,
            Directive::Exit(code) => Step::Exit(code),
            Directive::Commit(work) => work_on(Path::new("."), &work, step).await,
            Directive::Say(text) => {
                self.say(&Said::Text { text: text.clone() })?;
                Step::Next(text)
            }
            Directive::Feedback { kind, .. } => {
                Step::End(Said::Failed { text: format!("feedback ({kind}) is not available to this role") })
            }
            Directive::Approve { .. } => {
                Step::End(Said::Failed { text: "approve is not available to this role".to_owned() })
            }
        })
    }

    fn print(&mut self, n_bytes: u64) -> io::Result<Step> {
        let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
        let block = PRINTED.repeat(PRINTED_AT_ONCE);
        let mut left = n_bytes;
        while left > 0 {
            // What is too much is cut off in front, so that the last line still ends as one.
            let lines = &block[block.len().saturating_sub(left)..];
            self.out.write_all(lines)?;
            left -= lines.len();
        }
        self.n_spoken = self.n_spoken.saturating_add(n_bytes);
        Ok(Step::Next(format!("printed {n_bytes} bytes")))
    }

    fn say(&mut self, said: &Said) -> io::Result<()> {
        let line = said.line();
        self.n_spoken = self.n_spoken.saturating_add(line.len());
        self.tell(said)
    }

    fn tell(&mut self, said: &Said) -> io::Result<()> {
        match self.audience {
            Audience::Reader => writeln!(self.out, "{}", said.line())?,
            Audience::People => match said {
                Said::Session { .. } | Said::Usage { .. } => {}
                Said::Failed { text } => writeln!(io::stderr(), "{text}")?,
                Said::Text { text } | Said::Complete { text } | Said::Question { text } => {
                    if *text != self.last_said {
                        writeln!(self.out, "{text}")?;
                        self.last_said.clone_from(text);
                    }
                }
            },
        }
        self.out.flush()
    }

    /// Tells what was used so far.
    fn account(&mut self, message: &str) -> io::Result<()> {
        let usage = Said::Usage { input_tokens: tokens(message.len()), output_tokens: tokens(self.n_spoken) };
        self.tell(&usage)
    }

    fn end(&mut self, message: &str, said: &Said) -> io::Result<u8> {
        self.account(message)?;
        self.say(said)?;
        Ok(u8::from(matches!(said, Said::Failed { .. })))
    }
}

/// Prose alone is work to do; somebody who judges the work of others waits to be told how.
fn script(message: &str) -> Vec<Directive> {
    let script = directives(message);
    match (script.is_empty(), std::env::var_os(REVIEWER)) {
        (false, _) => script,
        (true, None) => vec![Directive::Commit(message.to_owned())],
        (true, Some(_)) => vec![Directive::Wait],
    }
}

async fn work_on(directory: &Path, work: &str, step: Uuid) -> Step {
    if !is_repository(directory).await {
        return Step::Next("there is no git repository here, so nothing was committed".to_owned());
    }
    match commit(directory, work, step).await {
        Ok(committed) => Step::Next(format!("committed {committed}")),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            Step::End(Said::Failed { text: format!("{error}{}", cause.unwrap_or_default()) })
        }
    }
}

/// With a handler in place neither signal ends the process any more.
async fn hang() -> io::Result<Step> {
    let _deaf = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::time::sleep(FOR_EVER).await;
    Ok(Step::Next("hung".to_owned()))
}

fn fork() -> io::Result<Step> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args([COMMAND, "--linger"]).stdin(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn()?;
    Ok(Step::Next(format!("left process {} behind", child.id())))
}
