//! A reverse proxy before any Coder URL that delays, cuts, stalls or falsifies what rules tell it to.

mod connection;
mod head;

use super::rule::{Rule, RuleBook, RuleId};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// What goes wrong between client and server.
#[derive(Clone, Debug)]
pub(crate) enum ProxyFault {
    /// The request is passed on late.
    Delay(Duration),
    /// The connection ends before the server sees the request.
    CutBefore,
    /// The server carried the request out; the connection ends instead of its answer.
    CutAfter,
    /// The answer's head and this much of its body arrive, then the connection ends; streams too.
    CutInBody { bytes: usize },
    /// The answer's head and this much of its body arrive, then nothing more, on a connection that stays open.
    SilenceInBody { bytes: usize },
    /// The request's head and this much of what follows it arrive, then the connection ends; sockets too.
    CutInRequest { bytes: usize },
    /// Neither passed on nor answered, for as long as the client waits.
    Stall,
    /// A false answer, and the server never sees the request.
    AnswerBefore(FalseAnswer),
    /// A false answer, though the server carried the request out.
    AnswerAfter(FalseAnswer),
}

#[derive(Clone, Debug)]
pub(crate) struct FalseAnswer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

/// Requests seen so far: passed untouched, or met by a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxyCounts {
    pub(crate) passed: usize,
    pub(crate) injected: usize,
}

/// A running proxy; it ends when it is dropped.
pub(crate) struct FaultProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

/// What all connections need.
struct Shared {
    /// Host and port of the server behind.
    upstream: String,
    ledger: Mutex<Ledger>,
}

struct Ledger {
    rules: RuleBook<ProxyFault>,
    counts: ProxyCounts,
}

impl FaultProxy {
    /// Listens on loopback before the server at `upstream`, a plain `http://` URL.
    pub(crate) async fn start(upstream: &str) -> Self {
        let upstream = upstream.strip_prefix("http://").expect("the upstream is a plain HTTP URL");
        let ledger = Ledger { rules: RuleBook::new(), counts: ProxyCounts::default() };
        let upstream = upstream.trim_end_matches('/').to_owned();
        let shared = Arc::new(Shared { upstream, ledger: Mutex::new(ledger) });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let accepting = Some(tokio::spawn(accept(listener, Arc::clone(&shared))));
        Self { shared, address, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn fault(&self, rule: Rule<ProxyFault>) -> RuleId {
        self.shared.ledger().rules.add(rule)
    }

    pub(crate) fn fault_hits(&self, id: RuleId) -> usize {
        self.shared.ledger().rules.hits(id)
    }

    pub(crate) fn clear_faults(&self) {
        self.shared.ledger().rules.clear();
    }

    pub(crate) fn counts(&self) -> ProxyCounts {
        self.shared.ledger().counts
    }

    /// Refuses connections from here on and cuts those there are, streams included.
    pub(crate) async fn down(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            // Only when the task has ended is the port closed.
            accepting.await.expect_err("an aborted task ends by cancellation");
        }
    }

    /// Listens again on the same port.
    pub(crate) async fn up(&mut self) {
        if self.accepting.is_none() {
            let listener = TcpListener::bind(self.address).await.expect("the port is still ours");
            self.accepting = Some(tokio::spawn(accept(listener, Arc::clone(&self.shared))));
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, method: &str, path: &str) -> Option<ProxyFault> {
        let mut ledger = self.ledger();
        let fault = ledger.rules.pick(method, path);
        match &fault {
            Some(_) => ledger.counts.injected += 1,
            None => ledger.counts.passed += 1,
        }
        fault
    }
}

/// The connections live in this task, so aborting it cuts them all.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(connection::serve(client, Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
