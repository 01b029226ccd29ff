//! Exit codes, by which scripts distinguish outcomes.

use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    /// The server or Coder is unreachable or too slow: the same command may succeed later.
    Unavailable = 5,
    /// Another process holds the data directory.
    Held = 75,
}

impl Exit {
    /// The exit code of an error code of the contract; unknown codes are plain failures.
    pub fn of_code(code: &str) -> Self {
        match code {
            "INVALID_INPUT" => Self::Usage,
            "NOT_FOUND" => Self::NotFound,
            "FORBIDDEN" | "UNAUTHENTICATED" | "ALREADY_EXISTS" | "KEY_REUSED" | "CODER_REJECTED" => {
                Self::Refused
            }
            "AGENT_BUSY" | "AGENT_NOT_READY" | "NO_TASK" => Self::Refused,
            "REVIEW_LIMIT_EXCEEDED" | "REVIEW_IN_PROGRESS" => Self::Refused,
            "BUDGET_EXCEEDED" | "CAPACITY_EXCEEDED" => Self::Refused,
            "CODER_UNAVAILABLE" | "RATE_LIMITED" | "TIMEOUT" | "ENGINE_UNAVAILABLE" => Self::Unavailable,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn every_code_of_the_contract_has_its_exit_code() {
        let codes = [
            ("INVALID_INPUT", 2),
            ("NOT_FOUND", 3),
            ("ALREADY_EXISTS", 4),
            ("AGENT_BUSY", 4),
            ("AGENT_NOT_READY", 4),
            ("NO_TASK", 4),
            ("FORBIDDEN", 4),
            ("UNAUTHENTICATED", 4),
            ("KEY_REUSED", 4),
            ("REVIEW_LIMIT_EXCEEDED", 4),
            ("REVIEW_IN_PROGRESS", 4),
            ("BUDGET_EXCEEDED", 4),
            ("CAPACITY_EXCEEDED", 4),
            ("CODER_REJECTED", 4),
            ("TIMEOUT", 5),
            ("CODER_UNAVAILABLE", 5),
            ("RATE_LIMITED", 5),
            ("ENGINE_UNAVAILABLE", 5),
            ("GIT_FAILED", 1),
            ("FORGE_FAILED", 1),
            ("INTERNAL", 1),
            ("A_CODE_OF_A_NEWER_SERVER", 1),
        ];
        for (code, exit) in codes {
            assert_eq!((code, Exit::of_code(code) as u8), (code, exit));
        }
    }
}
