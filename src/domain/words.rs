//! Coder's status words, given meaning; a word we do not know is kept, never guessed.

/// One enum a vocabulary: every known word is a variant, anything else is `Unknown(word)`.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $name {
            $($variant,)+
            Unknown(String),
        }

        impl $name {
            /// Every word Coder is known to use here.
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

    /// `status` of a workspace agent: is it connected?
    Connection {
        Connecting = "connecting",
        Connected = "connected",
        Disconnected = "disconnected",
        Timeout = "timeout",
    }

    /// `lifecycle_state` of a workspace agent: how far did its startup come?
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

    /// `state` of an app status: what the coding agent says of itself.
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
    /// Has the job ended, whatever the outcome? An unknown word has not.
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
