//! The part of a terminal that its clients and its task both hold: who is attached, what they missed, the input.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::PtyInput;
use super::replay::Replay;

/// Chunks under way to one client; a client that reads slower holds the command back, as on a terminal.
const OUTPUT_QUEUE: usize = 16;

/// One client of a terminal; dropping it detaches.
#[derive(Debug)]
pub struct Attachment {
    output: mpsc::Receiver<Bytes>,
    shared: Arc<Shared>,
}

impl Attachment {
    /// The next output, beginning with what the terminal kept; none once the command has ended.
    pub async fn output(&mut self) -> Option<Bytes> {
        self.output.recv().await
    }

    /// A way to send input that can be used while output is awaited.
    pub fn input(&self) -> mpsc::Sender<PtyInput> {
        self.shared.input.clone()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.shared.n_attached.send_modify(|n_attached| *n_attached -= 1);
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    input: mpsc::Sender<PtyInput>,
    n_attached: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    replay: Replay,
    clients: Vec<mpsc::Sender<Bytes>>,
    has_ended: bool,
}

impl Shared {
    pub(super) fn new(input: mpsc::Sender<PtyInput>) -> Self {
        Self { state: Mutex::default(), input, n_attached: watch::Sender::new(0) }
    }

    /// None when the terminal has ended, or is about to.
    pub(super) fn attach(self: &Arc<Self>) -> Option<Attachment> {
        let mut state = self.state();
        if state.has_ended {
            return None;
        }
        let (sender, output) = mpsc::channel(OUTPUT_QUEUE);
        let missed = state.replay.contents();
        if !missed.is_empty() {
            // The queue is new, so there is room for one chunk.
            sender.try_send(missed).ok()?;
        }
        state.clients.push(sender);
        self.n_attached.send_modify(|n_attached| *n_attached += 1);
        Some(Attachment { output, shared: Arc::clone(self) })
    }

    /// Keeps the chunk for later clients and gives it to those of now, each at its own pace.
    pub(super) async fn publish(&self, chunk: Bytes) {
        let clients = {
            let mut state = self.state();
            state.replay.push(&chunk);
            state.clients.retain(|client| !client.is_closed());
            state.clients.clone()
        };
        for client in clients {
            // A failure means that the client has detached meanwhile.
            client.send(chunk.clone()).await.ok();
        }
    }

    /// Returns when nobody has been attached for this long; from then on nobody can attach.
    pub(super) async fn abandoned(&self, idle: Duration) {
        let mut n_attached = self.n_attached.subscribe();
        loop {
            let Ok(_) = n_attached.wait_for(|n_attached| *n_attached == 0).await else { return };
            let is_back = timeout(idle, n_attached.wait_for(|n_attached| *n_attached > 0)).await.is_ok();
            if !is_back && self.end_if_alone() {
                return;
            }
        }
    }

    /// Lets the clients see the end once they have read the rest.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.clients.clear();
    }

    fn end_if_alone(&self) -> bool {
        let mut state = self.state();
        // Clients attach under the same lock, so none can come between the question and the answer.
        state.has_ended = *self.n_attached.borrow() == 0;
        state.has_ended
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
