//! Where agents run: on a Coder deployment, or on this machine beside the server.

/// What a server must know of its Coder to inform people correctly about their agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosting {
    /// Agents continue independent of the server.
    Deployment,
    /// Agents are processes of this machine's user, and stop with the server.
    Embedded(Isolation),
}

/// Findings about the machine of embedded agents that contradict the records, in sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFindings {
    /// Directories without a workspace.
    pub leftovers: Vec<String>,
    /// Processes without a running workspace.
    pub strays: Vec<String>,
    /// Running workspaces without their process.
    pub lost: Vec<String>,
}

/// How agents on this machine are kept from acting as its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// They see only their own workspace of the fleet's data, and only its processes.
    Enforced,
    /// They see only their own workspace of the fleet's data, but PID namespaces are unavailable: they can signal
    /// every process of the user, and a process that hides its origin outlives its workspace.
    SharedProcesses { reason: String },
    /// Unavailable on this machine: agents can read whatever the user can, including the operator's token.
    Absent { reason: String },
    /// The isolation is weaker than before: no agent starts until it is restored, or until the operator permits
    /// less.
    Withheld { reason: String },
}
