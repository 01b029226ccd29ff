//! Time limits of the embedded Coder.

use std::time::Duration;

use crate::durations::limits;

limits! {
    /// Durations that decide the state of a workspace, or that a client waits for.
    LocalLimits {
        /// An agent's process that is silent for longer counts as disconnected; real servers tolerate about as much.
        silence: Duration = Duration::from_secs(20),
        /// An agent's process is probed this often.
        probe_interval: Duration = Duration::from_secs(2),
        /// A process that takes longer to respond to a probe counts as silent.
        probe: Duration = Duration::from_secs(5),
        /// The delay before an exited agent is restarted; it doubles with each further restart.
        respawn_delay: Duration = Duration::from_secs(1),
        /// After TERM all processes of a workspace end within this time; then they are killed. A runner needs half of
        /// it to end an engine that resists and to record that, and a stop has ten seconds in total.
        terminate: Duration = Duration::from_secs(6),
        /// How long open requests may take to end once the server stops.
        closing: Duration = Duration::from_secs(5),
        /// The metadata files of the agents are read this often.
        metadata_interval: Duration = Duration::from_millis(500),
        /// Project and role files are read this often.
        template_interval: Duration = Duration::from_secs(2),
        /// A lookup waits this long for these files, which may be on a mount that does not respond.
        template_read: Duration = Duration::from_secs(2),
        /// The clones of the agents are checked for moved branches this often.
        publish_interval: Duration = Duration::from_secs(1),
        /// The transfer of a branch; a larger one is retried.
        publish: Duration = Duration::from_secs(60),
        /// The same at a stop, which has ten seconds in total; a larger branch is transferred after it.
        publish_stopped: Duration = Duration::from_secs(5),
        /// The same before a delete, which is the last chance.
        publish_last: Duration = Duration::from_secs(30),
        /// The delay after a first failure, and while the branch is not ours to move; it doubles with each failure.
        publish_retry: Duration = Duration::from_secs(30),
    }
}
