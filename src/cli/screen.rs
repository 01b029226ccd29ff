//! Terminal output: results on standard output, hints and errors on standard error.

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

/// The width of tables without a terminal.
const WIDTH_WITHOUT_TERMINAL: u16 = 100;
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    People,
    Json,
}

/// How this process prints. Each output stream decides about colours.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) format: Format,
    width: u16,
    /// Output goes to a terminal: following and redrawing make sense.
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

    /// Asks for a confirmation; without a terminal this error is returned.
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

    /// A response of the server: unchanged for programs, rendered for people.
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

    /// A result composed here, for programs.
    pub(crate) fn json(&self, answer: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(answer).map_err(CliError::Undecodable)?;
        self.rendered(&json::pretty(&text))
    }

    pub(crate) fn table(&self, table: &Table) -> Result<(), CliError> {
        self.rendered(&table.render(self.width))
    }

    /// Untrusted plain text on standard output.
    pub(crate) fn line(&self, text: &str) -> Result<(), CliError> {
        self.rendered(&printable(text))
    }

    /// Text rendered by us, including colours; untrusted parts were made printable before.
    pub(crate) fn rendered(&self, text: &str) -> Result<(), CliError> {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(CliError::Output)
    }

    /// A next step or progress; programs that asked for JSON do not need it.
    pub(crate) fn hint(&self, text: &str) {
        let style = Style::new().dimmed();
        if self.format == Format::People {
            print_error(&format!("{style}{}{style:#}", printable(text)));
        }
    }

    /// Clears the terminal before a redraw; a pipe gets one table after the other.
    pub(crate) fn clear(&self) -> Result<(), CliError> {
        if !self.is_terminal {
            return Ok(());
        }
        // Bypasses the colour filter, which would drop this if colours are off.
        io::stdout().write_all(CLEAR.as_bytes()).map_err(CliError::Output)
    }

    /// Prints the error and returns its exit code. A closed output pipe is no error.
    pub(crate) fn fail(&self, error: &CliError) -> Exit {
        if matches!(error, CliError::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe) {
            return Exit::Ok;
        }
        match self.format {
            Format::Json => print_error(&json::pretty(&error.json())),
            Format::People => self.complain(&error.message(), &error.next_action()),
        }
        error.exit()
    }

    /// Prints an error for people without exiting.
    pub(crate) fn complain(&self, message: &str, next_action: &str) {
        let style = AnsiColor::Red.on_default().bold();
        print_error(&format!("{style}error:{style:#} {}", printable(message)));
        print_error(&format!("  next: {}", printable(next_action)));
    }
}

/// Prints to standard error; a closed stream is ignored.
fn print_error(text: &str) {
    let _written = writeln!(anstream::stderr().lock(), "{text}");
}
