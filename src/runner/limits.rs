//! Time limits of a runner.

use std::time::Duration;

use crate::durations::{Backoff, limits};
use crate::process::EndLimits;

limits! {
    /// Durations that decide how a run ends, or that a client waits for.
    RunnerLimits {
        /// An interrupted engine ends within this time after INT; a stop of the workspace allows less.
        interrupt: Duration = Duration::from_secs(3),
        /// The same after TERM; then it is killed.
        terminate: Duration = Duration::from_secs(2),
        /// A process that survives KILL this long is stuck in the kernel. Two looks fit in, even if each is delayed by
        /// a process that blocks readers. A stop of the workspace allows two of these.
        kill: Duration = Duration::from_millis(2500),
        /// Each of these steps while the workspace is being stopped: the runner is killed soon after, and the end of
        /// the run must be recorded before.
        stop_step: Duration = Duration::from_secs(1),
        /// How much later than the engine a runner may learn that the workspace is being stopped.
        stop_news: Duration = Duration::from_millis(500),
        /// The rest of the output after the end of all processes: one that escaped may hold the pipe.
        drain: Duration = Duration::from_secs(1),
        /// How long open connections may delay a stop.
        closing: Duration = Duration::from_secs(1),
        /// The first run waits this long for the provisioning, which takes a second or two after a workspace is ready.
        provisioning: Duration = Duration::from_secs(10),
        /// The files of the provisioning are looked for this often.
        provisioning_poll: Duration = Duration::from_millis(100),
        /// An engine that has not confirmed its message by then is interrupted anyway.
        hold: Duration = Duration::from_secs(8),
        /// An engine that cannot confirm its message has it after this time.
        opening: Duration = Duration::from_secs(2),
        /// The file that an engine writes beside its output is read this often.
        session_log_poll: Duration = Duration::from_millis(500),
        /// Usage is published at most this often: an engine may report it thousands of times per turn, and the
        /// embedded Coder reads the file twice per second.
        usage_interval: Duration = Duration::from_millis(500),
        /// The pause before a retry on a full disk.
        write_retry: Duration = Duration::from_secs(1),
        /// Between two reports to Coder: all agents of one machine share one limit of 512 per minute.
        report_gap: Duration = Duration::from_millis(500),
        /// The pause after a failed report.
        report_retry: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30)),
    }
}

impl RunnerLimits {
    /// The last steps of a termination: TERM, then KILL.
    pub(super) fn end(&self) -> EndLimits {
        EndLimits { term: self.terminate, kill: self.kill }
    }
}
