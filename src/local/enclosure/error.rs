//! Why a command could not be enclosed, and the exit code that says so.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

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
    #[error("cannot keep the users of this machine")]
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
    Processes(#[source] io::Error),
    #[error("cannot make the settings of the machine read-only")]
    Machine(#[source] io::Error),
    #[error("cannot give up the right to change mounts")]
    Rights(#[source] io::Error),
    #[error("cannot close what was open before")]
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
    /// As shells tell a command that is missing from one that fails.
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
            | Self::Processes(_)
            | Self::Machine(_)
            | Self::Rights(_)
            | Self::Descriptors(_)
            | Self::Directory { .. }
            | Self::Supervise(_)
            | Self::Terminal(_) => 125,
        }
    }
}
