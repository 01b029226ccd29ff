//! Where a runner listens: a private socket, or a port of the loopback address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::RunnerError;
use super::options::Listen;

/// A place to listen that is ours.
#[derive(Debug)]
pub(super) enum Bound {
    Socket { listener: UnixListener, path: PathBuf },
    Port(TcpListener),
}

impl Bound {
    pub(super) fn open(listen: &Listen) -> Result<Self, RunnerError> {
        match listen {
            Listen::Socket(path) => socket(path)
                .map_err(|source| RunnerError::Listen { address: path.display().to_string(), source }),
            Listen::Port(port) => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                bind(address)
                    .map(Self::Port)
                    .map_err(|source| RunnerError::Listen { address: address.to_string(), source })
            }
        }
    }

    /// Answers until told to close, and takes the socket away at the end.
    pub(super) async fn serve(self, router: Router, closing: CancellationToken) {
        let closed = closing.cancelled_owned();
        let served = match self {
            Self::Port(listener) => axum::serve(listener, router).with_graceful_shutdown(closed).await,
            Self::Socket { listener, path } => {
                let served = axum::serve(listener, router).with_graceful_shutdown(closed).await;
                let removed = std::fs::remove_file(&path);
                served.and(removed)
            }
        };
        if let Err(error) = served {
            tracing::warn!(%error, "the runner stopped listening");
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Takes its place in one step: a socket that a dead runner left is replaced, and nobody ever sees ours with
/// other rights than the final ones. That no living runner has it is known by the journal's lock.
fn socket(path: &Path) -> io::Result<Bound> {
    let fresh = path.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, path)?;
    Ok(Bound::Socket { listener, path: path.to_owned() })
}
