//! Asks a program for its version.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Nobody waits longer than this for a number.
const PATIENCE: Duration = Duration::from_secs(3);

/// The version it tells; none if it tells nothing we understand in time.
pub(super) async fn of(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    number_in(&String::from_utf8_lossy(&output.stdout))
}

/// The version among the words of an answer such as `codex-cli 0.166.0`.
fn number_in(answer: &str) -> Option<String> {
    let is_number = |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    answer.split_whitespace().map(|word| word.trim_start_matches('v')).find(is_number).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::number_in;

    #[test]
    fn the_number_is_found_among_the_words() {
        let cases = [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("tool v1.2-rc.3", Some("1.2-rc.3")),
            ("what is it.", None),
            ("", None),
        ];
        for (answer, number) in cases {
            assert_eq!(number_in(answer).as_deref(), number, "{answer}");
        }
    }
}
