//! Puts an agent's files in place with one command inside its workspace, which also tries the way back to us.

use std::time::Duration;

use chrono::{SecondsFormat, Utc};

use super::Trouble;
use super::files::Belongings;
use crate::app::inside::Inside;
use crate::coder::exec::Command;
use crate::domain::provision::Callback;
use crate::domain::text::{cut, one_line};

/// Reads the files from its input, so that no secret is ever an argument.
const SCRIPT: &str = include_str!("write.sh");
/// Long enough for a slow workspace and the try of our address.
const LIMIT: Duration = Duration::from_secs(20);
/// How long a workspace that does not answer is waited for.
const WAIT: Duration = Duration::from_secs(30);
const OUTPUT_LIMIT: usize = 16 * 1024;
const LONGEST_REASON: usize = 200;

impl Inside<'_> {
    pub(super) async fn belongings_write(
        &self,
        belongings: &Belongings<'_>,
        generation: i64,
    ) -> Result<Callback, Trouble> {
        let at = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let argv = ["sh", "-c", SCRIPT, "provision", &generation.to_string(), &at];
        let command = Command {
            stdin: belongings.input(),
            timeout: LIMIT,
            output_limit: OUTPUT_LIMIT,
            ..Command::new(argv)
        };
        let written = tokio::time::timeout(WAIT, self.exec(command)).await;
        let output = written.map_err(|_| Trouble("the workspace does not respond".to_owned()))??;
        read_answer(&String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr))
    }
}

/// The script's last word: `done` and how the way back is, or `failed` and why.
fn read_answer(stdout: &str, stderr: &str) -> Result<Callback, Trouble> {
    let last = stdout.lines().last().unwrap_or_default();
    if let Some(callback) = last.strip_prefix("done ").and_then(Callback::parse) {
        return Ok(callback);
    }
    let said = last.strip_prefix("failed ").unwrap_or(if stderr.trim().is_empty() { stdout } else { stderr });
    let reason = cut(&one_line(said), LONGEST_REASON);
    Err(Trouble(format!("the agent's files could not be written: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_the_script_counts() {
        let trouble = |text: &str| Err(Trouble(format!("the agent's files could not be written: {text}")));
        assert_eq!(read_answer("welcome!\ndone direct\n", ""), Ok(Callback::Direct));
        assert_eq!(read_answer("failed cannot make /x\n", "noise"), trouble("cannot make /x"));
        assert_eq!(read_answer("", "sh: not found\n"), trouble("sh: not found"));
        assert_eq!(read_answer("done somehow\n", ""), trouble("done somehow"));
    }
}
