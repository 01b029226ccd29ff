//! Time limits on agents, workspaces and Coder.

use std::time::Duration;

use chrono::TimeDelta;

use crate::durations::{Backoff, limits};

limits! {
    /// Every rule takes its durations from this value, which comes with the clock. Tests of expiry use shorter ones.
    Limits {
        /// A create that was sent and shows no effect may still be in flight for this long.
        send: TimeDelta = TimeDelta::seconds(35),
        /// After the stop of a restart Coder queues the start by itself; the fleet waits this long for it.
        restart_grace: TimeDelta = TimeDelta::seconds(5),
        /// The limit for saving an agent's work: a delete never waits longer.
        rescue: TimeDelta = TimeDelta::seconds(10),
        /// A build without a connected workspace agent after this time has failed.
        connect: TimeDelta = TimeDelta::seconds(180),
        /// A shorter disconnection keeps the last status.
        disconnected: TimeDelta = TimeDelta::seconds(30),
        /// An app without a response for this long is unreachable.
        silence: TimeDelta = TimeDelta::seconds(30),
        /// One request to an agent's app.
        app_request: Duration = Duration::from_secs(8),
        /// One message to an agent's app, which may have to type it.
        app_message: Duration = Duration::from_secs(10),
        /// One request to the app of an agent that is to stop: without a response the next step follows.
        app_interrupt: Duration = Duration::from_secs(3),
        /// An agent that starts with a spec shows it within this time; otherwise the spec is sent.
        spec_grace: TimeDelta = TimeDelta::seconds(5),
        /// A text that was sent to an AgentAPI and is not in its conversation after this time is lost.
        read_back: TimeDelta = TimeDelta::seconds(35),
        /// An agent may continue for this long after its claim.
        claim_grace: TimeDelta = TimeDelta::seconds(30),
        /// An interrupted turn ends within this time, including the runner's own signals.
        interrupt: TimeDelta = TimeDelta::seconds(10),
        /// An interruption without a response is repeated after this time.
        interrupt_repeat: Duration = Duration::from_secs(1),
        /// Signals to an engine, until its runner reports the end.
        signal: TimeDelta = TimeDelta::seconds(10),
        /// The command that sends these signals.
        signal_command: Duration = Duration::from_secs(8),
        /// In this command: an engine ends within this time after TERM; then it is killed.
        signal_term: Duration = Duration::from_secs(3),
        /// In this command: a killed engine that is still there after this time is stuck in the kernel.
        signal_kill: Duration = Duration::from_secs(2),
        /// How long the response to a cancel waits for the end of the task: long enough for the interruption, the
        /// signals and a stop of the workspace.
        cancel_answer: Duration = Duration::from_secs(42),
        /// An interrupted agent reports that it is idle within this time.
        rest: Duration = Duration::from_secs(10),

        /// A refusal by Coder within this time is the error of the create itself.
        early_answer: Duration = Duration::from_secs(2),
        /// A create is accepted without the template's newest version when Coder takes longer to name it.
        version_lookup: Duration = Duration::from_secs(2),
        /// A read for the response to a client.
        coder_answer: Duration = Duration::from_secs(3),
        /// Coder itself flushes metadata every five seconds.
        metadata_fresh: Duration = Duration::from_secs(2),

        /// A short command in a workspace.
        workspace_command: Duration = Duration::from_secs(20),
        /// Such a command and the connection to a workspace that may not respond.
        workspace_answer: Duration = Duration::from_secs(30),
        /// A CLI that creates a conversation queries its service.
        opening_command: Duration = Duration::from_secs(60),
        /// Such a command and the connection to a workspace that may not respond.
        opening_answer: Duration = Duration::from_secs(70),
        /// The command that reads the repository after a run.
        evidence_command: Duration = Duration::from_secs(5),
        /// Such a command and the connection to a workspace that may not respond.
        evidence_answer: Duration = Duration::from_secs(8),
        /// The repository is not read any more this long after the end of a run.
        evidence: TimeDelta = TimeDelta::seconds(60),
        /// A squad member waits this long for a workspace that runs and does not respond, as during a restart.
        member_silence: Duration = Duration::from_secs(60),
        member_retry: Duration = Duration::from_secs(1),

        /// Open work is read this often without a notification.
        work_read: Duration = Duration::from_secs(15),
        /// The pause before failed work is retried.
        work_retry: Duration = Duration::from_secs(1),
        /// Between two looks at an operation.
        operation_look: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1)),
        /// Between two looks at an agent with a task.
        task_look: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2)),
        /// Signs of life are written at most this often.
        sign_interval: TimeDelta = TimeDelta::seconds(20),
        /// The messages of a working agent are copied this often: its workspace may be lost.
        log_interval: Duration = Duration::from_secs(20),
        /// An unchanged sighting is written this often: memory has its time anyway.
        sighting_interval: TimeDelta = TimeDelta::seconds(60),
        /// Between two attempts to reach the workspace of a run.
        run_look: Duration = Duration::from_millis(500),
        /// Output of a run is stored at the latest after this time.
        run_write: Duration = Duration::from_millis(200),
        /// Provisioning is checked this often: tokens expire without a notification.
        provision_read: Duration = Duration::from_secs(1),
        /// The pause after a failed provisioning.
        provision_retry: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(600)),

        /// The shortest pause between two polls of Coder, per page of its list.
        page_gap: Duration = Duration::from_millis(250),
        /// The pause between polls while Coder refuses the token.
        unauthorized_interval: Duration = Duration::from_secs(30),
        /// The longest pause for a rate limit, whatever time Coder names.
        rate_limit: Duration = Duration::from_secs(60),
        /// The pause for a rate limit without a time.
        unnamed_rate_limit: Duration = Duration::from_secs(2),
        /// The longest pause between polls after failures.
        poll_backoff: Duration = Duration::from_secs(15),
        /// A token file is read this often while Coder refuses the token.
        token_read: Duration = Duration::from_secs(2),
        /// Templates are read this often.
        discovery_interval: Duration = Duration::from_secs(30),
    }
}
