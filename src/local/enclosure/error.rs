//! Why a command could not be enclosed, and the exit code that says so.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

/// The exit code for failures that a retry may cure, as in `sysexits.h`.
pub(super) const TRY_AGAIN: u8 = 75;

#[derive(Debug, Error)]
pub enum EncloseError {
    #[error("cannot make namespaces")]
    Namespaces(#[source] io::Error),
    #[error("cannot join the namespaces of process {pid}")]
    Join {
        pid: u32,
        #[source]
        source: io::Error,
    },
    #[error("cannot map the users of this machine")]
    Users(#[source] io::Error),
    #[error("cannot hide {}", path.display())]
    Hide {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot keep {} from being renamed", path.display())]
    Pin {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot make {} read-only", path.display())]
    Protect {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot show only the processes of the workspace in /proc")]
    ProcessScope(#[source] io::Error),
    #[error("cannot make the settings of the machine read-only")]
    Machine(#[source] io::Error),
    #[error("cannot drop the right to change mounts")]
    Rights(#[source] io::Error),
    #[error("cannot close inherited file descriptors")]
    Descriptors(#[source] io::Error),
    #[error("cannot work in {}", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot supervise the command")]
    Supervise(#[source] io::Error),
    #[error("cannot take the terminal")]
    Terminal(#[source] io::Error),
    #[error("cannot start {}", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl EncloseError {
    /// A missing command differs from a failing one, as in shells.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            Self::Namespaces(_)
            | Self::Join { .. }
            | Self::Users(_)
            | Self::Hide { .. }
            | Self::Pin { .. }
            | Self::Protect { .. }
            | Self::ProcessScope(_)
            | Self::Machine(_)
            | Self::Rights(_)
            | Self::Descriptors(_)
            | Self::Directory { .. }
            | Self::Supervise(_)
            | Self::Terminal(_) => {
                if self.is_transient() {
                    TRY_AGAIN
                } else {
                    125
                }
            }
        }
    }

    /// Whether the machine lacked a resource that may be available again soon.
    fn is_transient(&self) -> bool {
        let cause = std::error::Error::source(self).and_then(|cause| cause.downcast_ref::<io::Error>());
        let scarce = [Errno::NOSPC, Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::USERS];
        cause.and_then(Errno::from_io_error).is_some_and(|error| scarce.contains(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_ran_out_of_is_told_from_what_it_forbids() {
        let code = |errno: Errno| EncloseError::Namespaces(errno.into()).exit_code();
        assert_eq!([Errno::NOSPC, Errno::AGAIN, Errno::PERM, Errno::INVAL].map(code), [75, 75, 125, 125]);
    }
}
