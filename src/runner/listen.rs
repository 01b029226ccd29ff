//! The listener of a runner: a private socket, its own or inherited, or a loopback port.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use axum::Router;
use rustix::fs::{FileType, fstat};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::RunnerError;
use super::options::Listen;
use super::peer::OwnPeers;
use crate::serve::{self, ConnectionLimits};

/// A bound listener.
#[derive(Debug)]
pub(super) enum BoundListener {
    Socket { listener: OwnPeers, path: PathBuf },
    Inherited(OwnPeers),
    Port(TcpListener),
}

impl BoundListener {
    pub(super) fn open(listen: &Listen) -> Result<Self, RunnerError> {
        let refused = |address: String| |source| RunnerError::Listen { address, source };
        match listen {
            Listen::Socket(path) => socket(path).map_err(refused(path.display().to_string())),
            Listen::Inherited => inherited().map_err(refused("standard input".to_owned())),
            Listen::Port(port) => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                bind(address).map(Self::Port).map_err(refused(address.to_string()))
            }
        }
    }

    /// Serves until told to close, and removes its own socket at the end.
    pub(super) async fn serve(self, router: Router, closing: CancellationToken) {
        let limits = ConnectionLimits::of_process();
        match self {
            Self::Port(listener) => serve::serve(listener, router, limits, closing).await,
            Self::Inherited(listener) => serve::serve(listener, router, limits, closing).await,
            Self::Socket { listener, path } => {
                serve::serve(listener, router, limits, closing).await;
                if let Err(error) = std::fs::remove_file(&path) {
                    tracing::warn!(%error, "the runner's socket could not be removed");
                }
            }
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Put in place by one rename: a dead runner's socket is replaced, and clients never see ours with other
/// permissions. The journal's lock excludes a living runner.
fn socket(path: &Path) -> io::Result<BoundListener> {
    let fresh = path.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&fresh, path)?;
    Ok(BoundListener::Socket { listener: OwnPeers::of(listener)?, path: path.to_owned() })
}

/// The socket is moved away from standard input at once, where every child would inherit it.
fn inherited() -> io::Result<BoundListener> {
    let stdin = rustix::stdio::stdin();
    if FileType::from_raw_mode(fstat(stdin)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("it is not a socket"));
    }
    let listener = std::os::unix::net::UnixListener::from(stdin.try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?.as_fd())?;
    listener.set_nonblocking(true)?;
    Ok(BoundListener::Inherited(OwnPeers::of(UnixListener::from_std(listener)?)?))
}
