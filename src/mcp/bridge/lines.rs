//! Reads lines of bounded length and writes whole lines.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// The server's limit on one request.
const MAX_LINE_BYTES: u64 = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(Vec<u8>),
    /// Skipped to its end.
    TooLong,
    End,
}

pub(super) async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Line> {
    let mut line = Vec::new();
    let n_read = input.take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line).await?;
    if n_read == 0 {
        return Ok(Line::End);
    }
    if line.len() as u64 > MAX_LINE_BYTES && !line.ends_with(b"\n") {
        skip_line(input).await?;
        return Ok(Line::TooLong);
    }
    Ok(Line::Text(line))
}

/// Writes each message as one line, at once, until the channel closes.
pub(super) async fn write_all(
    mut messages: mpsc::Receiver<String>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(mut message) = messages.recv().await {
        message.push('\n');
        output.write_all(message.as_bytes()).await?;
        output.flush().await?;
    }
    output.shutdown().await
}

async fn skip_line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<()> {
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let n_read = input.take(MAX_LINE_BYTES).read_until(b'\n', &mut piece).await?;
        if n_read == 0 || piece.ends_with(b"\n") {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_too_long_is_skipped_and_the_next_one_read() {
        let limit = usize::try_from(MAX_LINE_BYTES).unwrap();
        let text = format!("{}\nshort\n{}", "x".repeat(3 * limit), "y".repeat(4));
        let mut input = text.as_bytes();
        let mut found = Vec::new();
        for _ in 0..4 {
            found.push(next(&mut input).await.unwrap());
        }
        let expected =
            [Line::TooLong, Line::Text(b"short\n".to_vec()), Line::Text(b"yyyy".to_vec()), Line::End];
        assert_eq!(found, expected);
    }
}
