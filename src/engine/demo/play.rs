//! The process of the demo engine: reads a message, executes its directives, and prints events.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::commit::{commit, is_repository};
use super::line::DemoLine;
use super::memory::{Memory, Progress};
use super::script::{Directive, directives};
use super::{COMMAND, MEMBER, REVIEWER, tokens};
use crate::domain::squad;
use crate::domain::task::CONTINUE_MESSAGE;

/// The limit for directives without an end, in case no process terminates them.
const WAIT_LIMIT: Duration = Duration::from_secs(3600);
/// A line of `print`, as long as usual lines of output.
const PRINTED: &[u8] = b"This line is one of many that the demo engine prints when it is asked for output.\n";
const PRINTED_AT_ONCE: usize = 500;

/// Reads the message from standard input and works in the current directory.
pub async fn play() -> ExitCode {
    let mut message = String::new();
    let audience = if std::env::var_os(MEMBER).is_some() { Audience::People } else { Audience::Reader };
    let memory = match audience {
        Audience::Reader => Memory::of_environment(),
        Audience::People => Memory::default(),
    };
    let mut run = DemoRun { out: io::stdout(), audience, memory, n_printed: 0, last_text: String::new() };
    let result = match (io::stdin().read_to_string(&mut message), audience) {
        (Ok(_), Audience::Reader) => run.play(&message).await,
        (Ok(_), Audience::People) => run.play(squad::task_of(&message)).await,
        (Err(error), _) => Err(error),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        // The output is closed, so the error cannot be printed.
        Err(_) => ExitCode::FAILURE,
    }
}

/// The process that `fork` leaves behind: in a session of its own, with our output open.
pub async fn linger() -> ExitCode {
    match rustix::process::setsid() {
        Ok(_) => {
            tokio::time::sleep(WAIT_LIMIT).await;
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// The result of a directive.
enum DirectiveResult {
    Next(String),
    End(DemoLine),
    Exit(u8),
}

/// The reader of the output.
#[derive(Clone, Copy)]
enum Audience {
    /// Our reader, which expects one JSON object per line.
    Reader,
    /// A person, who gets each text once, as plain text.
    People,
}

struct DemoRun<W> {
    out: W,
    audience: Audience,
    memory: Memory,
    n_printed: usize,
    last_text: String,
}

impl<W: Write> DemoRun<W> {
    async fn play(&mut self, message: &str) -> io::Result<u8> {
        if let Some(id) = self.memory.session().map(str::to_owned) {
            self.write(&DemoLine::Session { id })?;
        }
        let unfinished = self.memory.unfinished().filter(|_| message.trim_end() == CONTINUE_MESSAGE);
        self.play_from(unfinished.unwrap_or_else(|| Progress::begin(message))).await
    }

    async fn play_from(&mut self, mut progress: Progress) -> io::Result<u8> {
        let (message, mut last) = (progress.message.clone(), String::new());
        for directive in script(&message).into_iter().skip(progress.n_done) {
            // On a full disk the work continues, but cannot be resumed after a stop.
            let _forgotten = self.memory.keep(&progress);
            match self.execute(directive, progress.step).await? {
                DirectiveResult::Next(text) => {
                    last = text;
                    self.account(&message)?;
                }
                DirectiveResult::End(line) => return self.end(&message, &line),
                DirectiveResult::Exit(code) => return Ok(code),
            }
            progress.advance();
        }
        self.end(&message, &DemoLine::Complete { text: last })
    }

    async fn execute(&mut self, directive: Directive, step: Uuid) -> io::Result<DirectiveResult> {
        Ok(match directive {
            Directive::Sleep(time) => {
                tokio::time::sleep(time).await;
                DirectiveResult::Next("slept".to_owned())
            }
            Directive::Fail(text) => DirectiveResult::End(DemoLine::Failed { text }),
            Directive::Ask(text) => DirectiveResult::End(DemoLine::Question { text }),
            Directive::Print(n_bytes) => self.print(n_bytes)?,
            Directive::Hang => hang().await?,
            Directive::Wait => {
                self.print_counted(&DemoLine::Text { text: "waiting to be told what to do".to_owned() })?;
                tokio::time::sleep(WAIT_LIMIT).await;
                DirectiveResult::Next("waited".to_owned())
            }
            Directive::Fork => fork()?,
            Directive::Exit(code) => DirectiveResult::Exit(code),
            Directive::Commit(work) => work_on(Path::new("."), &work, step).await,
            Directive::Say(text) => {
                self.print_counted(&DemoLine::Text { text: text.clone() })?;
                DirectiveResult::Next(text)
            }
            Directive::Feedback { kind, .. } => DirectiveResult::End(DemoLine::Failed {
                text: format!("feedback ({kind}) is not available to this role"),
            }),
            Directive::Approve { .. } => DirectiveResult::End(DemoLine::Failed {
                text: "approve is not available to this role".to_owned(),
            }),
        })
    }

    fn print(&mut self, n_bytes: u64) -> io::Result<DirectiveResult> {
        let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
        let block = PRINTED.repeat(PRINTED_AT_ONCE);
        let mut left = n_bytes;
        while left > 0 {
            // The excess is cut at the front, so that the last line still ends with a line break.
            let lines = &block[block.len().saturating_sub(left)..];
            self.out.write_all(lines)?;
            left -= lines.len();
        }
        self.n_printed = self.n_printed.saturating_add(n_bytes);
        Ok(DirectiveResult::Next(format!("printed {n_bytes} bytes")))
    }

    fn print_counted(&mut self, line: &DemoLine) -> io::Result<()> {
        self.n_printed = self.n_printed.saturating_add(line.line().len());
        self.write(line)
    }

    fn write(&mut self, line: &DemoLine) -> io::Result<()> {
        match self.audience {
            Audience::Reader => writeln!(self.out, "{}", line.line())?,
            Audience::People => match line {
                DemoLine::Session { .. } | DemoLine::Usage { .. } => {}
                DemoLine::Failed { text } => writeln!(io::stderr(), "{text}")?,
                DemoLine::Text { text } | DemoLine::Complete { text } | DemoLine::Question { text } => {
                    if *text != self.last_text {
                        writeln!(self.out, "{text}")?;
                        self.last_text.clone_from(text);
                    }
                }
            },
        }
        self.out.flush()
    }

    /// Prints the usage so far.
    fn account(&mut self, message: &str) -> io::Result<()> {
        let usage =
            DemoLine::Usage { input_tokens: tokens(message.len()), output_tokens: tokens(self.n_printed) };
        self.write(&usage)
    }

    fn end(&mut self, message: &str, line: &DemoLine) -> io::Result<u8> {
        self.account(message)?;
        self.print_counted(line)?;
        Ok(u8::from(matches!(line, DemoLine::Failed { .. })))
    }
}

/// A message without directives is work to commit; a reviewer waits instead.
fn script(message: &str) -> Vec<Directive> {
    let script = directives(message);
    match (script.is_empty(), std::env::var_os(REVIEWER)) {
        (false, _) => script,
        (true, None) => vec![Directive::Commit(message.to_owned())],
        (true, Some(_)) => vec![Directive::Wait],
    }
}

async fn work_on(directory: &Path, work: &str, step: Uuid) -> DirectiveResult {
    if !is_repository(directory).await {
        return DirectiveResult::Next("there is no git repository here, so nothing was committed".to_owned());
    }
    match commit(directory, work, step).await {
        Ok(committed) => DirectiveResult::Next(format!("committed {committed}")),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            DirectiveResult::End(DemoLine::Failed { text: format!("{error}{}", cause.unwrap_or_default()) })
        }
    }
}

/// With these handlers neither signal ends the process.
async fn hang() -> io::Result<DirectiveResult> {
    let _deaf = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::time::sleep(WAIT_LIMIT).await;
    Ok(DirectiveResult::Next("hung".to_owned()))
}

fn fork() -> io::Result<DirectiveResult> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args([COMMAND, "--linger"]).stdin(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn()?;
    Ok(DirectiveResult::Next(format!("left process {} behind", child.id())))
}
