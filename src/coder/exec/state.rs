//! What a workspace says about a run.

use super::{ExecError, Exit, RunEnd};

/// A run as its workspace knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Ended(RunEnd),
    /// It never was there.
    Unknown,
    /// It was there and has been removed.
    Removed,
    Refused(String),
}

impl State {
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
            "refused" => Self::Refused(rest.to_owned()),
            _ => return Err(unclear(&text)),
        })
    }
}

fn unclear(text: &str) -> ExecError {
    ExecError::cut(format!("the workspace answered {text:?}"))
}
