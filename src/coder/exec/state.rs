//! What a workspace says about a run.

use super::{ExecError, Exit};

/// A run as its workspace knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    Running,
    Ended(RunEnd),
    /// It never was there.
    Unknown,
    /// It was there and has been removed.
    Removed,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    Exited(Exit),
    Canceled,
    /// Its supervisor died, so nobody knows; the workspace was stopped, perhaps.
    Lost,
}

impl RunState {
    /// Reads the word of a script. A refusal is an error; so is what no script of ours says.
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
