//! Ends every process of a run, wherever it moved.
//!
//! A process group or session is not enough: engines start children in sessions of their own. All inherit the
//! marker; a process that clears its environment is found by its parent.

use crate::domain::id::RunId;
use crate::process::{EndLimits, Marker, ProcessId, end_from_top};

/// The variable that every process of a run carries.
pub(super) const MARKER: &str = "FLEET_RUN";

/// Ends every process of the run, including new ones, and returns once none is left.
///
/// TERM comes first, since a killed process cleans nothing up: git would leave locks, and the next run could not
/// commit. The engine ends before its commands: it would take their death for a result and call its model again.
pub(crate) async fn end(run: RunId, engine: Option<ProcessId>, limits: EndLimits) {
    let marker = Marker { key: MARKER.to_owned(), value: run.to_string() };
    if let Err(error) = end_from_top(marker, engine, limits).await {
        tracing::warn!(run.id = %run, %error, "some processes of the run may still be running");
    }
}
