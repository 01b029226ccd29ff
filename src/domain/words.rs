//! Coder's states as enums; an unknown one is kept as text, never guessed.

/// One enum per set of states: every known state is a variant, any other is `Unknown(word)`.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $name {
            $($variant,)+
            Unknown(String),
        }

        impl $name {
            /// Every state that Coder is known to use here.
            #[cfg(test)]
            pub const KNOWN: &'static [&'static str] = &[$($word),+];

            pub fn from_word(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
                }
            }

            pub fn word(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown(word) => word,
                }
            }
        }
    )+};
}

words! {
    /// `latest_build.status` of a workspace.
    BuildStatus {
        Pending = "pending",
        Starting = "starting",
        Running = "running",
        Stopping = "stopping",
        Stopped = "stopped",
        Failed = "failed",
        Canceling = "canceling",
        Canceled = "canceled",
        Deleting = "deleting",
        Deleted = "deleted",
    }

    /// `transition` of a build.
    Transition {
        Start = "start",
        Stop = "stop",
        Delete = "delete",
    }

    /// `status` of a workspace agent: whether it is connected.
    Connection {
        Connecting = "connecting",
        Connected = "connected",
        Disconnected = "disconnected",
        Timeout = "timeout",
    }

    /// `lifecycle_state` of a workspace agent: the progress of its startup.
    Lifecycle {
        Created = "created",
        Starting = "starting",
        StartTimeout = "start_timeout",
        StartError = "start_error",
        Ready = "ready",
        ShuttingDown = "shutting_down",
        ShutdownTimeout = "shutdown_timeout",
        ShutdownError = "shutdown_error",
        Off = "off",
    }

    /// `state` of an app status: the coding agent's own report.
    AppState {
        Working = "working",
        Idle = "idle",
        Complete = "complete",
        Failure = "failure",
    }

    /// `status` of a provisioner job.
    JobStatus {
        Pending = "pending",
        Running = "running",
        Succeeded = "succeeded",
        Canceling = "canceling",
        Canceled = "canceled",
        Failed = "failed",
    }
}

impl JobStatus {
    /// Whether the job has ended, with any outcome. False for an unknown state.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Canceled | Self::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_word_survives_a_round_trip() {
        for word in BuildStatus::KNOWN {
            assert_eq!(BuildStatus::from_word(word).word(), *word);
            assert!(!matches!(BuildStatus::from_word(word), BuildStatus::Unknown(_)));
        }
    }

    #[test]
    fn an_unknown_word_is_kept() {
        assert_eq!(Lifecycle::from_word("hibernating"), Lifecycle::Unknown("hibernating".into()));
        assert_eq!(Lifecycle::from_word("hibernating").word(), "hibernating");
    }
}
