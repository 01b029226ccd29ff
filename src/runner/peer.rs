//! Accepts only connections of the runner's own user and, with a PID namespace, only from outside of it.

use std::io;
use std::os::fd::AsFd;

use axum::serve::Listener;
use tokio::net::unix::{SocketAddr, UCred};
use tokio::net::{UnixListener, UnixStream};

/// A listener that drops all connections but the Coder's.
#[derive(Debug)]
pub(super) struct OwnPeers {
    listener: UnixListener,
    user: u32,
    is_coder_outside: bool,
}

impl OwnPeers {
    pub(super) fn of(listener: UnixListener) -> io::Result<Self> {
        // The kernel records which process listened on a socket: a process outside our PID namespace has no pid
        // here. Then the Coder is outside, and any peer with a pid belongs to the agent.
        let descriptor = listener.as_fd().try_clone_to_owned()?;
        let maker = UnixStream::from_std(descriptor.into())?.peer_cred()?;
        let user = rustix::process::getuid().as_raw();
        Ok(Self { listener, user, is_coder_outside: is_outside(&maker) })
    }

    fn admits(&self, peer: &UCred) -> bool {
        peer.uid() == self.user && (!self.is_coder_outside || is_outside(peer))
    }
}

impl Listener for OwnPeers {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            match stream.peer_cred() {
                Ok(peer) if self.admits(&peer) => return (stream, address),
                Ok(peer) => tracing::warn!(?peer, "a connection from a process other than Coder was refused"),
                Err(error) => tracing::warn!(%error, "a connection from an unknown process was refused"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

fn is_outside(process: &UCred) -> bool {
    matches!(process.pid(), None | Some(0))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Whether a connection of this process is accepted.
    async fn is_admitted(change: impl FnOnce(&mut OwnPeers)) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let mut door = OwnPeers::of(UnixListener::bind(&path).unwrap()).unwrap();
        change(&mut door);
        let mut client = UnixStream::connect(&path).await.unwrap();
        tokio::select! {
            _accepted = Listener::accept(&mut door) => true,
            closed = client.read_u8() => closed.is_ok(),
        }
    }

    #[tokio::test]
    async fn another_user_and_a_process_beside_the_runner_are_refused() {
        assert!(is_admitted(|_| {}).await);
        assert!(!is_admitted(|door| door.user += 1).await);
        assert!(!is_admitted(|door| door.is_coder_outside = true).await);
    }
}
