//! Decides whether an agent's final answer is a question, and how to show that question.

use super::text::{cut, one_line};

/// The shown length of the question; the outcome of the task has the whole answer.
const MAX_CHARS: usize = 300;
/// The question marks of Latin, Chinese and Arabic text.
const MARKS: [char; 3] = ['?', '？', '؟'];
/// Markdown around a whole line.
const EMPHASIS: [char; 2] = ['*', '_'];

/// Whether the answer ends with a question. Engines report such a turn as complete, so the last line decides.
pub fn is_asked(answer: &str) -> bool {
    last_line(answer).ends_with(MARKS)
}

/// The reason for needing input after a turn that ended with a question.
pub fn reason(answer: &str) -> String {
    format!("ended with a question: {}", tail(&last_line(answer)))
}

/// The answer within bounds. Truncated in the middle, so that the question stays.
pub fn bounded(answer: &str, max_chars: usize) -> String {
    if answer.chars().count() <= max_chars {
        return answer.to_owned();
    }
    let question = tail(&last_line(answer));
    let n_left = max_chars.saturating_sub(question.chars().count() + 1);
    format!("{}\n{question}", cut(answer, n_left))
}

/// The last visible line, without marks of emphasis.
fn last_line(answer: &str) -> String {
    let shown = answer.lines().rev().map(|line| one_line(line).trim_matches(EMPHASIS).trim().to_owned());
    shown.into_iter().find(|line| !line.is_empty()).unwrap_or_default()
}

/// Keeps the end of a long line, which holds the question.
fn tail(line: &str) -> String {
    let n_over = line.chars().count().saturating_sub(MAX_CHARS);
    if n_over == 0 {
        return line.to_owned();
    }
    let kept: String = line.chars().skip(n_over + 1).collect();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_asks_when_its_last_line_ends_with_a_question_mark() {
        let asking = [
            "Which one?",
            "Both would do.\n\nWhich one?\n\n",
            "Which one?  \r\n",
            "**Which one?**",
            "_Shall I go on?_\n\n***\n",
            "どちらにしますか？",
            "أيهما؟",
            "Which one?\u{200B}",
            "- Rust?\n- Go?",
        ];
        let stating = [
            "",
            "\n\n",
            "Done.",
            "Why? Because it was broken.",
            "Which one?\n\nI took the first.",
            "Run `grep a?`",
            "```\nWhich one?\n```",
            "?!",
        ];
        assert_eq!(asking.map(is_asked), [true; 9]);
        assert_eq!(stating.map(is_asked), [false; 8]);
    }

    #[test]
    fn the_reason_has_the_question_alone_within_bounds_and_nothing_that_does_not_print() {
        assert_eq!(reason("Both.\n\n**Which\u{1b}[31m\tone?**\n"), "ended with a question: Which[31m one?");
        let long = format!("{}Which one?", "and so on, ".repeat(1_000));
        let shown = reason(&long);
        assert!(shown.starts_with("ended with a question: …") && shown.ends_with("Which one?"), "{shown}");
        assert_eq!(shown.chars().count(), "ended with a question: ".len() + MAX_CHARS);
        assert_eq!(reason("which branch"), "ended with a question: which branch");
    }

    #[test]
    fn a_long_answer_keeps_its_beginning_and_its_question() {
        let long = format!("It began.\n{}\n\n**Which one?**\n", "and so on\n".repeat(1_000));
        let kept = bounded(&long, 500);
        assert!(kept.starts_with("It began.\n") && kept.ends_with("…\nWhich one?"), "{kept}");
        assert_eq!((kept.chars().count(), reason(&kept)), (500, reason(&long)));
        assert_eq!(bounded("Which one?", 500), "Which one?");
    }
}
