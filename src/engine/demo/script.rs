//! Parses the directives of a message.

use std::time::Duration;

/// An action of the demo engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Directive {
    Sleep(Duration),
    Fail(String),
    Ask(String),
    /// A number of bytes to print.
    Print(u64),
    /// Never ends, and ignores signals.
    Hang,
    /// Never ends: the default of a reviewer without directives.
    Wait,
    /// Leaves a process behind.
    Fork,
    Exit(u8),
    Commit(String),
    Say(String),
    Feedback {
        kind: String,
        text: String,
    },
    Approve {
        title: String,
    },
}

/// The directives in their order; empty for a message without any.
pub(super) fn directives(message: &str) -> Vec<Directive> {
    message.lines().filter_map(|line| directive(line.trim())).collect()
}

fn directive(line: &str) -> Option<Directive> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let text = || (!rest.is_empty()).then(|| rest.to_owned());
    match word {
        "sleep" => seconds(rest).map(Directive::Sleep),
        "fail" => Some(Directive::Fail(text().unwrap_or_else(|| "failed as asked".to_owned()))),
        "ask" => Some(Directive::Ask(text().unwrap_or_else(|| "How shall I go on?".to_owned()))),
        "print" => size(rest).map(Directive::Print),
        "hang" => rest.is_empty().then_some(Directive::Hang),
        "fork" => rest.is_empty().then_some(Directive::Fork),
        "exit" => rest.parse().ok().map(Directive::Exit),
        "commit" => Some(Directive::Commit(text().unwrap_or_else(|| "Demo work".to_owned()))),
        "say" => text().map(Directive::Say),
        "feedback" => feedback(rest),
        "approve" => text().map(|title| Directive::Approve { title }),
        _ => None,
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix("KB") {
        Some(number) => (number, 1_000),
        None => text.strip_suffix("MB").map_or((text, 1), |number| (number, 1_000_000)),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn feedback(rest: &str) -> Option<Directive> {
    let (kind, text) = rest.split_once(char::is_whitespace)?;
    let is_kind = matches!(kind, "needs_work" | "suggestions" | "clarification");
    is_kind.then(|| Directive::Feedback { kind: kind.to_owned(), text: text.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_is_read_in_order_and_prose_between_them_is_not() {
        let message = "Please:\n  sleep 2\nsleep 0.5\nfail\nfail for good\nask\nask why?\nprint 7\nprint 2KB\n\
            print 3MB\nhang\nfork\nexit 3\ncommit\ncommit Add it\nsay hello there\n\
            feedback needs_work Fix it\napprove A title\nThank you.";
        let seconds = Duration::from_secs_f64;
        let text = str::to_owned;
        assert_eq!(
            directives(message),
            [
                Directive::Sleep(seconds(2.0)),
                Directive::Sleep(seconds(0.5)),
                Directive::Fail(text("failed as asked")),
                Directive::Fail(text("for good")),
                Directive::Ask(text("How shall I go on?")),
                Directive::Ask(text("why?")),
                Directive::Print(7),
                Directive::Print(2_000),
                Directive::Print(3_000_000),
                Directive::Hang,
                Directive::Fork,
                Directive::Exit(3),
                Directive::Commit(text("Demo work")),
                Directive::Commit(text("Add it")),
                Directive::Say(text("hello there")),
                Directive::Feedback { kind: text("needs_work"), text: text("Fix it") },
                Directive::Approve { title: text("A title") },
            ]
        );
    }

    #[test]
    fn a_line_that_only_looks_like_a_directive_is_prose() {
        let lines = [
            "sleep well",
            "sleep -1",
            "sleep",
            "print",
            "print lots",
            "print 2GB",
            "hang on",
            "fork it",
            "exit",
            "exit 300",
            "say",
            "feedback harsh words",
            "approve",
            "Fail",
            "committed",
            "",
        ];
        assert_eq!(directives(&lines.join("\n")), []);
    }
}
