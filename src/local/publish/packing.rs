//! Packs the commits of an agent's clone, and detects a git that is blocked by a file of the clone.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, sink};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::local::LocalError;
use crate::local::build::{finished, not_run};

/// Packs the commits that are given on standard input. The progress also shows that git is not blocked before the pack
/// begins.
pub(super) const PACK: [&str; 5] = ["pack-objects", "--revs", "--thin", "--stdout", "--progress"];
const DOING: &str = "read the agent's commits";
const HEADER: usize = 12;
const BUFFER: usize = 64 * 1024;

/// A git that packs commits.
pub(super) struct Packing {
    git: Child,
    output: PackOutput,
}

/// What git prints while it packs.
struct PackOutput {
    pack: Box<dyn AsyncRead + Send + Unpin>,
    progress: Box<dyn AsyncRead + Send + Unpin>,
    silence: Duration,
    is_blocked: bool,
}

/// The first bytes of a pack.
pub(super) struct PackHeader([u8; HEADER]);

impl PackHeader {
    pub(super) fn n_objects(&self) -> u32 {
        let [.., a, b, c, d] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

impl Packing {
    /// Runs a `PACK` command for the wanted commits. A git that prints nothing for `silence` is blocked.
    pub(super) async fn begin(
        mut command: Command,
        wanted: &str,
        silence: Duration,
    ) -> Result<Self, LocalError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut git = command.spawn().map_err(not_run)?;
        let (Some(mut stdin), Some(pack), Some(progress)) =
            (git.stdin.take(), git.stdout.take(), git.stderr.take())
        else {
            return Err(not_run(io::Error::other("the process has no pipes")));
        };
        // A few lines, which fit into the pipe. A git that does not read all of them fails, which is reported.
        let _unread = stdin.write_all(wanted.as_bytes()).await;
        let (pack, progress) = (Box::new(pack), Box::new(progress));
        let output = PackOutput { pack, progress, silence, is_blocked: false };
        Ok(Self { git, output })
    }

    /// None if git fails before the pack begins.
    pub(super) async fn header(&mut self) -> Option<PackHeader> {
        self.output.header().await.ok()
    }

    /// Passes the whole pack on.
    pub(super) async fn copy_to(
        &mut self,
        header: &PackHeader,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        to.write_all(&header.0).await?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let n_read = self.output.read(&mut buffer).await?;
            match buffer.get(..n_read) {
                None | Some([]) => return Ok(()),
                Some(read) => to.write_all(read).await?,
            }
        }
    }

    /// Whether git was found blocked; its pack is then incomplete.
    pub(super) fn is_blocked(&self) -> bool {
        self.output.is_blocked
    }

    /// Waits for git to exit. A blocked git is killed.
    pub(super) async fn finish(self) -> Result<(), LocalError> {
        let Self { git, output: PackOutput { pack, mut progress, silence, is_blocked } } = self;
        if is_blocked {
            return Err(blocked(DOING, silence));
        }
        drop(pack);
        let exited = async {
            tokio::io::copy(&mut progress, &mut sink()).await?;
            git.wait_with_output().await
        };
        match timeout(silence, exited).await {
            Ok(exited) => finished(Ok(exited.map_err(not_run)?), DOING),
            Err(_) => Err(blocked(DOING, silence)),
        }
    }
}

/// The error of a git that did not respond in time; `doing` completes "git could not …".
pub(super) fn blocked(doing: &str, limit: Duration) -> LocalError {
    let output = format!("no response within {} s", limit.as_secs_f64());
    LocalError::GitRefused { doing: doing.to_owned(), output }
}

impl PackOutput {
    async fn header(&mut self) -> io::Result<PackHeader> {
        let mut header = [0; HEADER];
        let mut n_read = 0;
        while let Some(rest) = header.get_mut(n_read..).filter(|rest| !rest.is_empty()) {
            match self.read(rest).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => n_read += n,
            }
        }
        Ok(PackHeader(header))
    }

    /// Reads a part of the pack; 0 at its end.
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut report = [0; 1024];
        let mut is_reporting = true;
        loop {
            tokio::select! {
                biased;
                read = self.pack.read(buffer) => return read,
                read = self.progress.read(&mut report), if is_reporting => is_reporting = read? > 0,
                () = sleep(self.silence) => {
                    self.is_blocked = true;
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    const IDLE: Duration = Duration::from_millis(300);

    /// The output of a git, and the ends that git writes to: the pack and its progress.
    fn output() -> (PackOutput, DuplexStream, DuplexStream) {
        let ((pack, git_pack), (progress, git_progress)) = (duplex(1024), duplex(1024));
        let (pack, progress) = (Box::new(pack), Box::new(progress));
        (PackOutput { pack, progress, silence: IDLE, is_blocked: false }, git_pack, git_progress)
    }

    #[tokio::test]
    async fn a_git_that_reports_progress_is_waited_for_and_a_silent_one_is_blocked() {
        let (mut output, mut pack, mut progress) = output();
        let packing = async {
            for _ in 0..8 {
                sleep(IDLE / 3).await;
                progress.write_all(b"Counting objects\r").await.unwrap();
            }
            pack.write_all(b"PACK\0\0\0\x02\0\0\x01").await.unwrap();
            sleep(IDLE / 3).await;
            pack.write_all(b"\x03rest").await.unwrap();
        };
        // Polls git first: on a slow machine its report is there before the limit is noticed.
        let ((), header) = join(packing, output.header()).await;
        assert_eq!(header.unwrap().n_objects(), 259);
        let mut buffer = [0; 16];
        assert_eq!((output.read(&mut buffer).await.unwrap(), output.is_blocked), (4, false));
        let error = output.read(&mut buffer).await.unwrap_err();
        assert_eq!((error.kind(), output.is_blocked), (io::ErrorKind::TimedOut, true));
    }

    #[tokio::test]
    async fn a_git_that_exits_without_a_pack_is_not_blocked() {
        let (mut output, pack, progress) = output();
        drop((pack, progress));
        let error = output.header().await.err().unwrap();
        assert_eq!((error.kind(), output.is_blocked), (io::ErrorKind::UnexpectedEof, false));
    }
}
