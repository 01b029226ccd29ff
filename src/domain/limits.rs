//! Time limits on agents, workspaces and Coder.

use std::time::Duration;

use chrono::TimeDelta;

/// Every rule takes its durations from this value, which comes with the clock. Tests of expiry use shorter ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A create that was sent and shows no effect may still be in flight for this long.
    pub send: TimeDelta,
    /// After the stop of a restart Coder queues the start by itself; the fleet waits this long for it.
    pub restart_grace: TimeDelta,
    /// The limit for saving an agent's work: a delete never waits longer.
    pub rescue: TimeDelta,
    /// A build without a connected workspace agent after this time has failed.
    pub connect: TimeDelta,
    /// A shorter disconnection keeps the last status.
    pub disconnected: TimeDelta,
    /// An app without a response for this long is unreachable.
    pub silence: TimeDelta,
    /// One request to an agent's app.
    pub app_request: Duration,
    /// One message to an agent's app, which may have to type it.
    pub app_message: Duration,
    /// One request to the app of an agent that is to stop: without a response the next step follows.
    pub app_interrupt: Duration,
    /// An agent that starts with a spec shows it within this time; otherwise the spec is sent.
    pub spec_grace: TimeDelta,
    /// A text that was sent to an AgentAPI and is not in its conversation after this time is lost.
    pub read_back: TimeDelta,
    /// An agent may continue for this long after its claim.
    pub claim_grace: TimeDelta,
    /// An interrupted turn ends within this time, including the runner's own signals.
    pub interrupt: TimeDelta,
    /// Signals to an engine, until its runner reports the end.
    pub signal: TimeDelta,
    /// The command that sends these signals.
    pub signal_command: Duration,
    /// How long the response to a cancel waits for the end of the task.
    pub cancel_answer: Duration,
    /// An interrupted agent reports that it is idle within this time.
    pub rest: Duration,
}

impl Limits {
    pub const NORMAL: Self = Self {
        send: TimeDelta::seconds(35),
        restart_grace: TimeDelta::seconds(5),
        rescue: TimeDelta::seconds(10),
        connect: TimeDelta::seconds(180),
        disconnected: TimeDelta::seconds(30),
        silence: TimeDelta::seconds(30),
        app_request: Duration::from_secs(8),
        app_message: Duration::from_secs(10),
        app_interrupt: Duration::from_secs(3),
        spec_grace: TimeDelta::seconds(5),
        read_back: TimeDelta::seconds(35),
        claim_grace: TimeDelta::seconds(30),
        interrupt: TimeDelta::seconds(10),
        signal: TimeDelta::seconds(10),
        signal_command: Duration::from_secs(8),
        // Long enough for the interruption, the signals and a stop of the workspace.
        cancel_answer: Duration::from_secs(42),
        rest: Duration::from_secs(10),
    };

    /// Every duration shortened alike, so that their order is kept.
    pub fn divided_by(self, divisor: u8) -> Self {
        Self {
            send: self.send / i32::from(divisor),
            restart_grace: self.restart_grace / i32::from(divisor),
            rescue: self.rescue / i32::from(divisor),
            connect: self.connect / i32::from(divisor),
            disconnected: self.disconnected / i32::from(divisor),
            silence: self.silence / i32::from(divisor),
            app_request: self.app_request / u32::from(divisor),
            app_message: self.app_message / u32::from(divisor),
            app_interrupt: self.app_interrupt / u32::from(divisor),
            spec_grace: self.spec_grace / i32::from(divisor),
            read_back: self.read_back / i32::from(divisor),
            claim_grace: self.claim_grace / i32::from(divisor),
            interrupt: self.interrupt / i32::from(divisor),
            signal: self.signal / i32::from(divisor),
            signal_command: self.signal_command / u32::from(divisor),
            cancel_answer: self.cancel_answer / u32::from(divisor),
            rest: self.rest / u32::from(divisor),
        }
    }
}
