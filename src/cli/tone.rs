//! The colour of a status, and how tables and lines show it.

use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, Color};

use crate::domain::agent::AgentStatus;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Active,
    Moving,
    Bad,
    Faint,
}

impl Tone {
    /// Unknown statuses of a newer server have no colour.
    pub(crate) fn of_status(word: &str) -> Option<Self> {
        AgentStatus::parse(word).map(|status| match status {
            AgentStatus::Idle => Self::Good,
            AgentStatus::Busy => Self::Active,
            AgentStatus::Pending | AgentStatus::Starting | AgentStatus::Stopping => Self::Moving,
            AgentStatus::Canceling | AgentStatus::Deleting => Self::Moving,
            AgentStatus::Failed => Self::Bad,
            AgentStatus::Stopped | AgentStatus::Canceled | AgentStatus::Deleted => Self::Faint,
        })
    }

    pub(crate) fn of_check(ok: bool) -> Self {
        if ok { Self::Good } else { Self::Bad }
    }

    pub(crate) fn paint(self, text: &str) -> String {
        let style = match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Active => AnsiColor::Cyan.on_default(),
            Self::Moving => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Faint => Style::new().dimmed(),
        };
        format!("{style}{text}{style:#}")
    }

    pub(super) fn colour(self, cell: Cell) -> Cell {
        match self {
            Self::Good => cell.fg(Color::DarkGreen),
            Self::Active => cell.fg(Color::DarkCyan),
            Self::Moving => cell.fg(Color::DarkYellow),
            Self::Bad => cell.fg(Color::DarkRed).add_attribute(Attribute::Bold),
            Self::Faint => cell.add_attribute(Attribute::Dim),
        }
    }
}
