//! The in-workspace agent: serves AgentAPI, runs the engine once per message, and reports to Coder.
//!
//! One worker owns the conversation and its journal; the HTTP side reads a copy that the worker publishes and sends
//! it commands; reports to Coder are sent beside both and delay neither.

mod budget;
mod conversation;
mod entry;
mod files;
mod forget;
mod git;
mod http;
mod journal;
mod limits;
mod listen;
mod locks;
mod notes;
mod options;
mod peer;
mod process;
mod provisioning;
mod report;
mod resolved_engine;
mod state;
mod worker;

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use conversation::Conversation;
use http::Api;
use journal::{Journal, JournalError};
pub use limits::RunnerLimits;
use listen::BoundListener;
pub use options::{CoderOptions, Listen, Options, OptionsError};
use provisioning::Start;
pub use resolved_engine::ResolvedEngine;
use state::State;
use worker::Worker;

use crate::process::StopSignals;

/// Requests queued for the worker; further ones wait in their connections.
const INBOX: usize = 64;

/// Why a runner could not start or continue.
#[derive(Debug, Error)]
pub enum RunnerError {
    #[error("cannot use the agent directory {}", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot set up the reports to Coder")]
    Coder(#[source] crate::coder::CoderError),
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
}

/// Serves until SIGTERM, Ctrl-C or a hangup, then ends the current run and records that.
pub async fn run(options: Options) -> Result<(), RunnerError> {
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    stop_on_signals(&stop, &tasks)?;
    files::prepare(&options.directory)
        .map_err(|source| RunnerError::Directory { path: options.directory.clone(), source })?;
    let (journal, entries) = Journal::open(&options.directory).await?;
    process::note_idle(&options.directory);
    let limits = options.limits;
    let (reporter, reports) = report::start(options.coder.as_ref(), limits)?;
    let bound = BoundListener::open(&options.listen)?;
    let (state, watched) = watch::channel(State { conversation: Conversation::replay(entries), git: None });
    let (commands, inbox) = mpsc::channel(INBOX);
    let api = Api::new(&options, watched, commands);
    let reporting = tasks.spawn(reports.send_until(stop.clone()));
    // State of an earlier runner is settled first, so that no client sees a partly restored conversation.
    let (start, has_waited) = (Start::of(&options), false);
    let mut worker = Worker { options, journal, state, reporter, stop: stop.clone(), start, has_waited };
    worker.settle().await;
    let closing = CancellationToken::new();
    tasks.spawn(bound.serve(http::router(api), closing.clone()));
    worker.work(inbox).await;
    closing.cancel();
    tasks.close();
    let drained = tokio::time::timeout(limits.closing, tasks.wait()).await;
    reporting.abort();
    if drained.is_err() {
        tracing::debug!("some connections or a report did not end in time");
    }
    Ok(())
}

fn stop_on_signals(stop: &CancellationToken, tasks: &TaskTracker) -> Result<(), RunnerError> {
    let signals = StopSignals::listen().map_err(RunnerError::Signals)?;
    let stop = stop.clone();
    tasks.spawn(async move {
        stop.run_until_cancelled(signals.received()).await;
        stop.cancel();
    });
    Ok(())
}
