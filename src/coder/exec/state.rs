//! The state of a run as its workspace reports it.

use super::{ExecError, Exit};

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    Running,
    Ended(RunEnd),
    /// It never existed.
    Unknown,
    /// It existed and was removed.
    Removed,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    Exited(Exit),
    Canceled,
    /// Its supervisor died, for example because the workspace was stopped; the result is unknown.
    Lost,
}

impl RunState {
    /// Parses the state printed by a script. Errors and unexpected output are errors.
    pub(super) fn parse(text: &[u8]) -> Result<Self, ExecError> {
        let text = String::from_utf8_lossy(text);
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let number = || rest.parse().map_err(|_| unclear(&text));
        Ok(match word {
            "running" => Self::Running,
            "code" => Self::Ended(RunEnd::Exited(Exit::Code(number()?))),
            "signal" => Self::Ended(RunEnd::Exited(Exit::Signal(number()?))),
            "timeout" => Self::Ended(RunEnd::Exited(Exit::TimedOut)),
            "cancel" => Self::Ended(RunEnd::Canceled),
            "lost" => Self::Ended(RunEnd::Lost),
            "unknown" => Self::Unknown,
            "removed" => Self::Removed,
            "refused" => return Err(ExecError::Refused { reason: rest.trim().to_owned() }),
            _ => return Err(unclear(&text)),
        })
    }
}

fn unclear(text: &str) -> ExecError {
    let start: String = text.chars().take(100).collect();
    ExecError::Terminal { reason: format!("a script answered {start:?}") }
}
