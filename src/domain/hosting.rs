//! Where agents live: on a Coder deployment of its own, or on this machine beside the server that made them.

/// What a server must know of its Coder to tell people the truth about their agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosting {
    /// Agents go on whatever becomes of the server.
    Deployment,
    /// Agents are processes of this machine's user, and stop with the server.
    Embedded(Isolation),
}

/// What the machine of embedded agents shows that its records do not, in sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFindings {
    /// Directories of no workspace.
    pub leftovers: Vec<String>,
    /// Processes of no running workspace.
    pub strays: Vec<String>,
    /// Running workspaces without their process.
    pub lost: Vec<String>,
}

/// What keeps agents on this machine from acting as its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// They see nothing of the fleet's data but their own workspace, and no process but those of it.
    Enforced,
    /// They see nothing of the fleet's data either, but this machine lets us have no PID namespaces: they can signal
    /// every process of the user, and one that hides where it comes from outlives its workspace.
    SharedProcesses { reason: String },
    /// This machine does not let us; they can read whatever the user can, the operator's token included.
    Absent { reason: String },
    /// They were isolated better before than they can be now: none starts until they can be again, or until the
    /// operator allows less.
    Withheld { reason: String },
}
