//! Time limits on commands in a workspace.

use std::time::Duration;

/// How long commands wait for a workspace that does not respond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecLimits {
    /// After this time the caller gets an error; the workspace's processes continue.
    pub outage: Duration,
    /// The first pause before a retry, which doubles up to the longest.
    pub retry: Duration,
    pub retry_longest: Duration,
    /// The first connection to a workspace's agent may have to be established.
    pub ready: Duration,
    /// A server that sends nothing for this long, not even a heartbeat, is considered gone.
    pub silence: Duration,
}

impl ExecLimits {
    pub const NORMAL: Self = Self {
        outage: Duration::from_secs(60),
        retry: Duration::from_millis(100),
        retry_longest: Duration::from_secs(5),
        ready: Duration::from_secs(30),
        silence: Duration::from_secs(45),
    };

    /// Every duration shortened alike, so that their order is kept.
    pub fn divided_by(self, divisor: u8) -> Self {
        let divisor = u32::from(divisor);
        Self {
            outage: self.outage / divisor,
            retry: self.retry / divisor,
            retry_longest: self.retry_longest / divisor,
            ready: self.ready / divisor,
            silence: self.silence / divisor,
        }
    }
}
