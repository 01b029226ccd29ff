//! What reaches the terminal: answers on standard output, hints and errors on standard error.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::Body;
use super::error::CliError;
use super::exit::Exit;
use super::json;
use super::table::Table;
use crate::domain::text::printable;

/// Width of tables where there is no terminal to ask.
const WIDTH_WITHOUT_TERMINAL: u16 = 100;
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    People,
    Json,
}

/// How this process prints. Colours are decided by the streams written to.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) format: Format,
    width: u16,
    /// Someone reads along: following and redrawing make sense.
    pub(crate) is_terminal: bool,
}

impl Screen {
    pub(crate) fn of_process(json: bool) -> Self {
        let terminal_width = comfy_table::Table::new().width();
        Self {
            format: if json { Format::Json } else { Format::People },
            width: terminal_width.filter(|width| *width > 0).unwrap_or(WIDTH_WITHOUT_TERMINAL),
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Asks a question that only a yes answers; where none can be asked, this is the error.
    pub(crate) fn confirmed(
        &self,
        question: &str,
        unasked: impl FnOnce() -> CliError,
    ) -> Result<bool, CliError> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(unasked());
        }
        let mut stderr = anstream::stderr();
        let asked = write!(stderr, "{} [y/N] ", printable(question)).and_then(|()| stderr.flush());
        asked.map_err(CliError::Output)?;
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        read.map_err(|source| CliError::File { path: "the answer".into(), source })?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// An answer of the server: as it came for programs, rendered for people.
    pub(crate) fn answer<T: DeserializeOwned>(
        &self,
        body: &Body,
        render: impl FnOnce(&T) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        match self.format {
            Format::Json => self.rendered(&json::pretty(body.text())),
            Format::People => render(&body.read()?),
        }
    }

    /// An answer put together here, for programs.
    pub(crate) fn json(&self, answer: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(answer).map_err(CliError::Undecodable)?;
        self.rendered(&json::pretty(&text))
    }

    pub(crate) fn table(&self, table: &Table) -> Result<(), CliError> {
        self.rendered(&table.render(self.width))
    }

    /// Plain text on standard output, whoever wrote it.
    pub(crate) fn line(&self, text: &str) -> Result<(), CliError> {
        self.rendered(&printable(text))
    }

    /// Text laid out by us, colours included: what others wrote in it has been made printable before.
    pub(crate) fn rendered(&self, text: &str) -> Result<(), CliError> {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(CliError::Output)
    }

    /// What to type next, or what goes on; programs that asked for JSON do not need it.
    pub(crate) fn hint(&self, text: &str) {
        let style = Style::new().dimmed();
        if self.format == Format::People {
            say(&format!("{style}{}{style:#}", printable(text)));
        }
    }

    /// Empties the terminal before it is drawn anew; a pipe gets one table after the other.
    pub(crate) fn clear(&self) -> Result<(), CliError> {
        if !self.is_terminal {
            return Ok(());
        }
        // Past the colour filter, which would drop this where colours are not wanted.
        io::stdout().write_all(CLEAR.as_bytes()).map_err(CliError::Output)
    }

    /// Tells the error and gives its exit code. A reader that went away is no error of ours.
    pub(crate) fn fail(&self, error: &CliError) -> Exit {
        if matches!(error, CliError::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe) {
            return Exit::Ok;
        }
        match self.format {
            Format::Json => say(&json::pretty(&error.json())),
            Format::People => self.complain(&error.message(), &error.next_action()),
        }
        error.exit()
    }

    /// An error for people, without ending anything.
    pub(crate) fn complain(&self, message: &str, next_action: &str) {
        let style = AnsiColor::Red.on_default().bold();
        say(&format!("{style}error:{style:#} {}", printable(message)));
        say(&format!("  next: {}", printable(next_action)));
    }
}

/// Standard error; where even that is closed there is nobody left to tell.
fn say(text: &str) {
    let _written = writeln!(anstream::stderr().lock(), "{text}");
}
