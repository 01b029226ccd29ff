//! Writes an agent's files by one command inside its workspace, which also probes the server's address.

use chrono::{SecondsFormat, Utc};

use super::ProvisionError;
use super::files::AgentFiles;
use crate::app::workspace_exec::WorkspaceExec;
use crate::coder::exec::Command;
use crate::domain::provision::Callback;
use crate::domain::text::{cut, one_line};

/// Reads the files from stdin, so that no secret is an argument.
const SCRIPT: &str = include_str!("write.sh");
const OUTPUT_LIMIT: usize = 16 * 1024;
const LONGEST_REASON: usize = 200;

impl WorkspaceExec<'_> {
    pub(super) async fn files_write(
        &self,
        files: &AgentFiles<'_>,
        generation: i64,
    ) -> Result<Callback, ProvisionError> {
        let at = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let argv = ["sh", "-c", SCRIPT, "provision", &generation.to_string(), &at];
        let command = Command {
            stdin: files.input(),
            timeout: self.limits.workspace_command,
            output_limit: OUTPUT_LIMIT,
            ..Command::new(argv)
        };
        let output = self.exec(command, self.limits.workspace_answer).await?;
        read_answer(&String::from_utf8_lossy(&output.stdout), &String::from_utf8_lossy(&output.stderr))
    }
}

/// Parses the script's last line: `done` with the probe's result, or `failed` with the reason.
fn read_answer(stdout: &str, stderr: &str) -> Result<Callback, ProvisionError> {
    let last = stdout.lines().last().unwrap_or_default();
    if let Some(callback) = last.strip_prefix("done ").and_then(Callback::parse) {
        return Ok(callback);
    }
    let text = last.strip_prefix("failed ").unwrap_or(if stderr.trim().is_empty() { stdout } else { stderr });
    let reason = cut(&one_line(text), LONGEST_REASON);
    Err(ProvisionError(format!("the agent's files could not be written: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_the_script_counts() {
        let failure =
            |text: &str| Err(ProvisionError(format!("the agent's files could not be written: {text}")));
        assert_eq!(read_answer("welcome!\ndone direct\n", ""), Ok(Callback::Direct));
        assert_eq!(read_answer("failed cannot make /x\n", "noise"), failure("cannot make /x"));
        assert_eq!(read_answer("", "sh: not found\n"), failure("sh: not found"));
        assert_eq!(read_answer("done somehow\n", ""), failure("done somehow"));
    }
}
