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

/// Is it older than that? A number nobody understands is not held against anyone.
pub(super) fn is_older(version: &str, minimum: [u32; 2]) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => [major, minor] < minimum,
        (Some(_) | None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_older, number_in};

    #[test]
    fn only_a_number_below_the_minimum_is_too_old() {
        let versions = ["2.0.99", "1.9", "2.1.0", "2.10.1", "3.0", "2", "2.x.1"];
        let older = versions.map(|version| is_older(version, [2, 1]));
        assert_eq!(older, [true, true, false, false, false, false, false]);
    }

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
