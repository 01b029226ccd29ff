//! Reads a child process's output within limits: an agent decides how much git finds in its repository.

use std::io;
use std::process::{Output, Stdio};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// Enough for the refs of a repository, even tens of thousands of them.
const LONGEST_OUTPUT: usize = 16 * 1024 * 1024;
/// Of longer error output the end is kept: it holds the reason.
const LONGEST_COMPLAINT: usize = 64 * 1024;

/// Runs a command without input.
pub(crate) async fn run(mut command: Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    output_of(command.spawn()?).await
}

/// Waits for a child. A child that prints more than the limit is killed, with an error of the kind `FileTooLarge`.
pub(crate) async fn output_of(mut child: Child) -> io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    match tokio::try_join!(whole(stdout), end_of(stderr)) {
        Ok((stdout, stderr)) => Ok(Output { status: child.wait().await?, stdout, stderr }),
        Err(error) => {
            child.kill().await?;
            Err(error)
        }
    }
}

async fn whole(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(stream) = stream else { return Ok(bytes) };
    stream.take(LONGEST_OUTPUT as u64 + 1).read_to_end(&mut bytes).await?;
    if bytes.len() > LONGEST_OUTPUT {
        let message = format!("its output exceeded {LONGEST_OUTPUT} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

async fn end_of(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(mut stream) = stream else { return Ok(bytes) };
    while stream.read_buf(&mut bytes).await? > 0 {
        let n_dropped = bytes.len().saturating_sub(LONGEST_COMPLAINT);
        // Not for each byte, since dropping moves the rest.
        if n_dropped > LONGEST_COMPLAINT {
            bytes.drain(..n_dropped);
        }
    }
    bytes.drain(..bytes.len().saturating_sub(LONGEST_COMPLAINT));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(script: &str) -> io::Result<Output> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command).await
    }

    #[tokio::test]
    async fn a_child_that_prints_without_end_is_killed_and_refused() {
        let refused = shell("exec yes").await.unwrap_err();
        let error = (refused.kind(), refused.to_string());
        assert_eq!(error, (io::ErrorKind::FileTooLarge, "its output exceeded 16777216 bytes".to_owned()));
    }

    #[tokio::test]
    async fn output_within_the_limit_is_whole_and_of_long_complaints_the_end_is_kept() {
        let output = shell("yes | head -c 16777216; yes | head -c 1000000 >&2; echo last >&2; exit 3");
        let output = output.await.unwrap();
        let found = (output.status.code(), output.stdout.len(), output.stderr.len());
        assert_eq!(found, (Some(3), LONGEST_OUTPUT, LONGEST_COMPLAINT));
        assert!(output.stderr.ends_with(b"y\nlast\n"));
    }
}
