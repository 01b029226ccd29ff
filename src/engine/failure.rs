//! Classifies failures by the text of their messages, for engines without error codes.

use super::event::{EngineEnd, Exit, FailureKind};

/// Texts of accounts at their usage limit. They contain the reset time, so the failure keeps the whole text.
const LIMITED: &[&str] = &[
    "usage limit",
    "usage_limit",
    "hit your limit",
    "limit reached",
    "session limit",
    "weekly limit",
    "rate_limit_error",
    "insufficient_quota",
    "429 too many requests",
];
/// Texts about missing or invalid credentials.
const UNAUTHORISED: &[&str] = &[
    "401 unauthorized",
    "invalid api key",
    "authentication_error",
    "please run /login",
    "not logged in",
    "oauth token has expired",
    "invalid x-api-key",
    "credit balance is too low",
];
/// Prefixes of error messages on standard error.
const MARKS: [&str; 2] = ["Error: ", "error: "];

/// The kind of a failure that has only a text.
pub(super) fn kind_of(text: &str) -> FailureKind {
    let text = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(LIMITED) {
        FailureKind::UsageLimit
    } else if says(UNAUTHORISED) {
        FailureKind::Auth
    } else {
        FailureKind::EngineError
    }
}

/// The outcome of a process that reported none: its last error message, else its exit code or signal.
pub(super) fn without_outcome(exit: &Exit) -> EngineEnd {
    if exit.status.success() {
        let text = "the engine ended without reporting a result".to_owned();
        return EngineEnd::Failed { kind: FailureKind::BadOutput, text };
    }
    match (exit.status.code(), last_error(&exit.stderr)) {
        (Some(_), Some(text)) => EngineEnd::Failed { kind: kind_of(&text), text },
        (Some(_) | None, _) => EngineEnd::Failed { kind: FailureKind::Crashed, text: crash(exit) },
    }
}

/// How a process ended, with its last error message.
pub(super) fn crash(exit: &Exit) -> String {
    match exit.stderr.trim() {
        "" => format!("the engine ended with {}", exit.status),
        stderr => format!("the engine ended with {}: {stderr}", exit.status),
    }
}

/// The last line with an error prefix.
fn last_error(stderr: &str) -> Option<String> {
    let marked = |line: &str| MARKS.iter().find_map(|mark| line.strip_prefix(mark)).map(str::to_owned);
    stderr.lines().rev().find_map(|line| marked(line.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_distinguish_limits_and_credentials_from_other_failures() {
        let cases = [
            ("You've hit your limit · resets 1:30am (Asia/Dhaka)", FailureKind::UsageLimit),
            ("Claude AI usage limit reached|1750708800", FailureKind::UsageLimit),
            (
                "You've hit your usage limit. Try again in 2 days 17 hours 14 minutes.",
                FailureKind::UsageLimit,
            ),
            ("unexpected status 401 Unauthorized: bad key", FailureKind::Auth),
            ("Invalid API key · Please run /login", FailureKind::Auth),
            ("bad request", FailureKind::EngineError),
        ];
        for (text, kind) in cases {
            assert_eq!(kind_of(text), kind, "{text}");
        }
    }
}
