//! The state shared by a terminal's clients and its task: attachments, recent output, input.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::PtyInput;
use super::replay::Replay;

/// Chunks in flight to one client; a slow client slows the command down, as on a terminal.
const OUTPUT_QUEUE: usize = 16;

/// One client of a terminal; dropping it detaches.
#[derive(Debug)]
pub struct Attachment {
    output: mpsc::Receiver<Bytes>,
    shared: Arc<Shared>,
}

impl Attachment {
    /// The next output, beginning with the replay; none once the command has ended.
    pub async fn output(&mut self) -> Option<Bytes> {
        self.output.recv().await
    }

    /// A sender of input that is usable while output is awaited.
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

    /// None if the terminal has ended or is ending.
    pub(super) fn attach(self: &Arc<Self>) -> Option<Attachment> {
        let mut state = self.state();
        if state.has_ended {
            return None;
        }
        let (sender, output) = mpsc::channel(OUTPUT_QUEUE);
        let missed = state.replay.contents();
        if !missed.is_empty() {
            // The queue is new, so it has room for one chunk.
            sender.try_send(missed).ok()?;
        }
        state.clients.push(sender);
        self.n_attached.send_modify(|n_attached| *n_attached += 1);
        Some(Attachment { output, shared: Arc::clone(self) })
    }

    /// Keeps the chunk for later clients and sends it to the attached ones, each at its own pace.
    pub(super) async fn publish(&self, chunk: Bytes) {
        let clients = {
            let mut state = self.state();
            state.replay.push(&chunk);
            state.clients.retain(|client| !client.is_closed());
            state.clients.clone()
        };
        for client in clients {
            // An error means that the client has detached meanwhile.
            client.send(chunk.clone()).await.ok();
        }
    }

    /// Returns after no client was attached for this long; from then on none can attach.
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

    /// Lets the clients see the end after the remaining output.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.clients.clear();
    }

    fn end_if_alone(&self) -> bool {
        let mut state = self.state();
        // Clients attach under the same lock, so none can attach between check and update.
        state.has_ended = *self.n_attached.borrow() == 0;
        state.has_ended
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
