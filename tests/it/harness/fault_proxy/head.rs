//! The head of an HTTP/1.1 message: read from a stream, looked at, and rewritten for the server behind.

use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt};

const LIMIT: usize = 64 * 1024;

/// A message's head, and the bytes of its body that came with it.
pub(super) struct Head {
    lines: Vec<String>,
    pub(super) body_start: Vec<u8>,
}

impl Head {
    /// Reads up to the empty line; `None` when the peer closed before sending anything.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>> {
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                return Ok(Some(Self::parse(&bytes, end)));
            }
            if bytes.len() > LIMIT {
                return Err(Error::new(ErrorKind::InvalidData, "the message head is too long"));
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return if bytes.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    pub(super) fn method(&self) -> &str {
        self.lines[0].split(' ').next().unwrap_or_default()
    }

    /// The path without its query.
    pub(super) fn path(&self) -> &str {
        let target = self.lines[0].split(' ').nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default()
    }

    /// Addresses the request to the server behind; unless it is an upgrade, one request uses one connection,
    /// so that the end of the answer is the end of the stream.
    pub(super) fn readdress(&mut self, host: &str) {
        let upgrade = self.lines.iter().any(|line| has_name(line, "upgrade"));
        self.lines.retain(|line| !has_name(line, "host") && (upgrade || !has_name(line, "connection")));
        self.lines.push(format!("Host: {host}"));
        if !upgrade {
            self.lines.push("Connection: close".to_owned());
        }
    }

    /// The head with its empty line, as it goes over the wire.
    pub(super) fn bytes(&self) -> Vec<u8> {
        format!("{}\r\n\r\n", self.lines.join("\r\n")).into_bytes()
    }

    fn parse(bytes: &[u8], end: usize) -> Self {
        let text = String::from_utf8_lossy(&bytes[..end]);
        Self { lines: text.split("\r\n").map(str::to_owned).collect(), body_start: bytes[end + 4..].to_vec() }
    }
}

fn has_name(line: &str, name: &str) -> bool {
    line.split_once(':').is_some_and(|(header, _)| header.eq_ignore_ascii_case(name))
}
