//! Time limits on commands in a workspace.

use std::time::Duration;

use crate::durations::{Backoff, limits};

limits! {
    /// How long commands wait for a workspace that does not respond, and a run for processes that resist.
    ExecLimits {
        /// After this time the caller gets an error; the workspace's processes continue.
        outage: Duration = Duration::from_secs(60),
        /// The pause before a retry.
        retry: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
        /// The first connection to a workspace's agent may have to be established.
        ready: Duration = Duration::from_secs(30),
        /// A server that sends nothing for this long, not even a heartbeat, is considered gone.
        silence: Duration = Duration::from_secs(45),
        /// From TERM to the first KILL, in whole seconds; the first second may be partial.
        terminate: Duration = Duration::from_secs(3),
        /// A killed process that is still there after this time is stuck in the kernel; in whole seconds as well.
        kill: Duration = Duration::from_secs(5),
    }
}
