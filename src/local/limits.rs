//! Time limits of the embedded Coder.

use std::time::Duration;

use crate::durations::{Backoff, limits};

limits! {
    /// Durations that decide the state of a workspace, or that a client waits for.
    LocalLimits {
        /// An agent's process that is silent for longer counts as disconnected; real servers tolerate about as much.
        silence: Duration = Duration::from_secs(20),
        /// An agent's process is probed this often.
        probe_interval: Duration = Duration::from_secs(2),
        /// A process that takes longer to respond to a probe counts as silent.
        probe: Duration = Duration::from_secs(5),
        /// The delay before an exited agent is restarted.
        respawn: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60)),
        /// After TERM all processes of a workspace end within this time; then they are killed. A runner needs half of
        /// it to end an engine that resists and to record that, and a stop has ten seconds in total.
        terminate: Duration = Duration::from_secs(6),
        /// A killed process that is still there after this time is stuck in the kernel.
        kill: Duration = Duration::from_secs(2),
        /// After the end of an agent's process, the others in its PID namespace end within this time; then they are
        /// killed.
        leftovers: Duration = Duration::from_secs(3),
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
        /// The delay after a failure, and the first one while the branch is not ours to move.
        publish_retry: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(64 * 60)),
        /// A git that takes longer to read one ref and its commit is blocked by something that the agent has put
        /// there.
        publish_tip: Duration = Duration::from_secs(4),
        /// Git reports progress every second, except while it compresses one large object. A git that prints nothing
        /// for this long is blocked by a file of the clone, such as a FIFO.
        publish_silence: Duration = Duration::from_secs(10),
        /// Git holds the lock of a ref for milliseconds. A lock that is unchanged for this long has no owner.
        stale_lock: Duration = Duration::from_secs(3),
        /// Time limit for waiting on locks held by other processes.
        lock_wait: Duration = Duration::from_secs(10),
        /// A terminal without clients ends after this time, as with a real agent.
        terminal_idle: Duration = Duration::from_mins(5),
        /// The kernel sends a hangup when the terminal closes. A process that ignores it, or is just changing its
        /// session, gets this long before it is killed.
        terminal_hangup: Duration = Duration::from_secs(1),
        /// A killed process of a terminal that is still there after this time is stuck in the kernel.
        terminal_kill: Duration = Duration::from_secs(5),
        /// How long a leader may run on after its terminal has closed.
        terminal_follow: Duration = Duration::from_millis(200),
    }
}
