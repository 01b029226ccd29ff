//! Access rights: one function decides, from the credential alone.

use super::id::{AgentId, TokenId};
use super::name::name_key;
use super::role::RoleKind;

/// The caller. It comes from the connection's credential, never from an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub kind: RoleKind,
    /// The name in the audit trail and in histories.
    pub name: String,
    pub role: Option<String>,
    pub token_id: Option<TokenId>,
    /// Set when the caller is an agent of the fleet.
    pub agent: Option<AgentId>,
    pub projects: AllowedProjects,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedProjects {
    All,
    Only(Vec<String>),
}

/// Every action of a caller; a tool, its route and its command share one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    AgentList,
    AgentShow,
    AgentCreate,
    AgentDelete,
    AgentStart,
    AgentStop,
    AgentRestart,
    AgentHistory,
    AgentLog,
    AgentWait,
    AgentMetadataSet,
    TaskStart,
    TaskCancel,
    StatusReport,
    SquadRoleList,
    SquadRun,
    SquadStatus,
    RoleList,
    ProjectList,
    FleetStatus,
    RescueList,
    RescueFetch,
    OperationList,
    OperationCancel,
    TokenManage,
    AuditRead,
    Doctor,
    ServerStop,
}

/// The target of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    Fleet,
    /// A new agent in this project with a role of this kind.
    NewAgent {
        project: &'a str,
        kind: RoleKind,
    },
    Agent(AgentTarget<'a>),
    /// An unknown agent name: the caller learns that it is unknown only if it may look.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentTarget<'a> {
    pub id: AgentId,
    pub project: &'a str,
    pub kind: RoleKind,
    pub created_by: Option<&'a str>,
}

/// Why a call was refused, in words for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    #[error("a token of kind '{0}' may not do this")]
    Kind(RoleKind),
    #[error("this token may not act on project '{0}'")]
    Project(String),
    #[error("an agent may do this only to itself")]
    NotItself,
    #[error("a manager agent may act only on agents it created, and never on another manager")]
    NotItsChild,
}

impl Principal {
    /// Identifies the requester of agents, squads and request keys. An agent's signature is its id, shared by all
    /// its tokens; a person's is the id of the token. Names can be chosen, given away and reused, so two callers of
    /// one name must not access each other's work.
    pub fn signature(&self) -> String {
        match (self.agent, self.token_id) {
            (Some(agent), _) => agent_signature(agent),
            (None, Some(token)) => format!("{TOKEN_SIGNATURE}{token}"),
            (None, None) => self.name.clone(),
        }
    }

    /// Whether it may name the directory of its work. People who manage the fleet may; an agent works where it was
    /// placed, and its own claims must not lead it elsewhere.
    pub fn may_bring_directory(&self) -> bool {
        self.agent.is_none() && matches!(self.kind, RoleKind::Operator | RoleKind::Manager)
    }

    /// The column of the rights table. Operator rights are reserved for people, so an agent of that kind has a
    /// manager's rights.
    fn rights(&self) -> RoleKind {
        match (self.kind, self.agent) {
            (RoleKind::Operator, Some(_)) => RoleKind::Manager,
            (kind, _) => kind,
        }
    }
}

const AGENT_SIGNATURE: &str = "agent:";
const TOKEN_SIGNATURE: &str = "token:";

/// The signature of an agent.
pub fn agent_signature(agent: AgentId) -> String {
    format!("{AGENT_SIGNATURE}{agent}")
}

/// The agent that signed; none for a person.
pub fn signing_agent(signature: &str) -> Option<AgentId> {
    signature.strip_prefix(AGENT_SIGNATURE)?.parse().ok().map(AgentId)
}

/// The access decision. Pure and total; a test covers all kinds, actions and targets.
pub fn authorize(principal: &Principal, action: Action, target: Target<'_>) -> Result<(), Denial> {
    match action.class() {
        Class::Read => Ok(()),
        Class::Detail => may_inspect(principal, target),
        Class::Oversight => may_oversee(principal),
        Class::Fleet => may_manage(principal, target),
        Class::Own => {
            may_manage(principal, target).or_else(|denial| may_act_on_itself(principal, target, denial))
        }
        Class::Work => may_manage(principal, target).or_else(|denial| may_work(principal, target, denial)),
        Class::Itself => may_act_on_itself(principal, target, Denial::Kind(principal.kind)),
        Class::People => match principal.rights() {
            RoleKind::Operator => Ok(()),
            kind @ (RoleKind::Manager | RoleKind::Coding | RoleKind::Review | RoleKind::Planning) => {
                Err(Denial::Kind(kind))
            }
        },
    }
}

/// What an action requires of a full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomNeeded {
    /// Nothing: it writes little or nothing, and is attempted.
    None,
    /// It ends work and must succeed.
    Ending,
    /// It begins work and is refused before any effect.
    Beginning,
}

/// Groups of actions with the same rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// For all callers.
    Read,
    /// Spec, log and results of one agent.
    Detail,
    /// Records of deleted agents and the like, for managers.
    Oversight,
    /// Changes to the fleet.
    Fleet,
    /// Changes to one agent, which the agent may also make to itself.
    Own,
    /// Engine runs for the caller: managers in their projects, coding agents in their own workspaces.
    Work,
    /// Actions of an agent on itself only.
    Itself,
    /// Tokens, settings, audit: people only.
    People,
}

impl Action {
    pub const ALL: &'static [Self] = &[
        Self::AgentList,
        Self::AgentShow,
        Self::AgentCreate,
        Self::AgentDelete,
        Self::AgentStart,
        Self::AgentStop,
        Self::AgentRestart,
        Self::AgentHistory,
        Self::AgentLog,
        Self::AgentWait,
        Self::AgentMetadataSet,
        Self::TaskStart,
        Self::TaskCancel,
        Self::StatusReport,
        Self::SquadRoleList,
        Self::SquadRun,
        Self::SquadStatus,
        Self::RoleList,
        Self::ProjectList,
        Self::FleetStatus,
        Self::RescueList,
        Self::RescueFetch,
        Self::OperationList,
        Self::OperationCancel,
        Self::TokenManage,
        Self::AuditRead,
        Self::Doctor,
        Self::ServerStop,
    ];

    /// The tool's name, also used in the audit trail.
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentList => "list_agents",
            Self::AgentShow => "show_agent",
            Self::AgentCreate => "create_agent",
            Self::AgentDelete => "delete_agent",
            Self::AgentStart => "start_agent",
            Self::AgentStop => "stop_agent",
            Self::AgentRestart => "restart_agent",
            Self::AgentHistory => "show_agent_task_history",
            Self::AgentLog => "show_agent_log",
            Self::AgentWait => "wait_for_agents",
            Self::AgentMetadataSet => "set_agent_metadata",
            Self::TaskStart => "start_agent_task",
            Self::TaskCancel => "cancel_agent_task",
            Self::StatusReport => "report_status",
            Self::SquadRoleList => "list_roles",
            Self::SquadRun => "start_squad_members",
            Self::SquadStatus => "squad_status",
            Self::RoleList => "list_agent_roles",
            Self::ProjectList => "list_agent_projects",
            Self::FleetStatus => "fleet_status",
            Self::RescueList => "list_rescues",
            Self::RescueFetch => "fetch_rescue",
            Self::OperationList => "list_operations",
            Self::OperationCancel => "cancel_operation",
            Self::TokenManage => "manage_tokens",
            Self::AuditRead => "list_audit",
            Self::Doctor => "doctor",
            Self::ServerStop => "shut_down",
        }
    }

    pub fn room_needed(self) -> RoomNeeded {
        match self {
            Self::AgentStop | Self::AgentDelete | Self::TaskCancel | Self::ServerStop => RoomNeeded::Ending,
            Self::OperationCancel => RoomNeeded::Ending,
            Self::AgentCreate | Self::AgentStart | Self::AgentRestart => RoomNeeded::Beginning,
            Self::TaskStart | Self::SquadRun => RoomNeeded::Beginning,
            Self::AgentMetadataSet | Self::StatusReport => RoomNeeded::Beginning,
            // Revoking a token must work on a full disk.
            Self::TokenManage => RoomNeeded::None,
            Self::AgentList | Self::AgentShow | Self::AgentHistory | Self::AgentLog => RoomNeeded::None,
            Self::AgentWait | Self::SquadRoleList | Self::SquadStatus => RoomNeeded::None,
            Self::RoleList | Self::ProjectList | Self::FleetStatus => RoomNeeded::None,
            Self::RescueList | Self::RescueFetch | Self::AuditRead | Self::Doctor => RoomNeeded::None,
            Self::OperationList => RoomNeeded::None,
        }
    }

    /// Whether this kind of principal can ever succeed with it. Decides which tools are listed.
    pub fn is_offered_to(self, principal: &Principal) -> bool {
        match self.class() {
            Class::Read | Class::Detail => true,
            Class::Own => principal.agent.is_some() || is_manager(principal.kind),
            Class::Work => {
                is_manager(principal.kind)
                    || (principal.agent.is_some() && principal.kind == RoleKind::Coding)
            }
            Class::Itself => principal.agent.is_some(),
            Class::Fleet | Class::Oversight => is_manager(principal.kind),
            Class::People => principal.rights() == RoleKind::Operator,
        }
    }

    fn class(self) -> Class {
        match self {
            Self::AgentList | Self::AgentHistory | Self::AgentWait => Class::Read,
            Self::RoleList | Self::ProjectList | Self::FleetStatus => Class::Read,
            Self::SquadRoleList | Self::SquadStatus => Class::Read,
            Self::SquadRun => Class::Work,
            Self::AgentShow | Self::AgentLog => Class::Detail,
            Self::RescueList | Self::RescueFetch | Self::OperationList => Class::Oversight,
            Self::AgentCreate
            | Self::AgentDelete
            | Self::AgentStart
            | Self::AgentStop
            | Self::AgentRestart
            | Self::OperationCancel => Class::Fleet,
            Self::AgentMetadataSet | Self::TaskStart | Self::TaskCancel => Class::Own,
            Self::StatusReport => Class::Itself,
            Self::TokenManage | Self::AuditRead | Self::Doctor | Self::ServerStop => Class::People,
        }
    }
}

impl AllowedProjects {
    pub fn allow(&self, project: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(projects) => projects.iter().any(|allowed| name_key(allowed) == name_key(project)),
        }
    }
}

fn is_manager(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::Operator | RoleKind::Manager)
}

fn may_inspect(principal: &Principal, target: Target<'_>) -> Result<(), Denial> {
    match target {
        Target::Agent(agent) if !is_manager(principal.kind) && principal.agent != Some(agent.id) => {
            Err(Denial::NotItself)
        }
        Target::Agent(_) | Target::Fleet | Target::NewAgent { .. } | Target::Absent => Ok(()),
    }
}

fn may_oversee(principal: &Principal) -> Result<(), Denial> {
    if is_manager(principal.kind) { Ok(()) } else { Err(Denial::Kind(principal.kind)) }
}

fn may_manage(principal: &Principal, target: Target<'_>) -> Result<(), Denial> {
    match principal.rights() {
        RoleKind::Operator => Ok(()),
        RoleKind::Manager => manager_may(principal, target),
        kind @ (RoleKind::Coding | RoleKind::Review | RoleKind::Planning) => Err(Denial::Kind(kind)),
    }
}

fn manager_may(principal: &Principal, target: Target<'_>) -> Result<(), Denial> {
    let is_agent = principal.agent.is_some();
    let (project, kind, is_child) = match target {
        Target::Fleet | Target::Absent => return Ok(()),
        Target::NewAgent { project, kind } => (project, kind, true),
        Target::Agent(agent) => {
            (agent.project, agent.kind, agent.created_by == Some(principal.signature().as_str()))
        }
    };
    if !principal.projects.allow(project) {
        return Err(Denial::Project(project.to_owned()));
    }
    if is_agent && (is_manager(kind) || !is_child) {
        return Err(Denial::NotItsChild);
    }
    Ok(())
}

fn may_work(principal: &Principal, target: Target<'_>, denial: Denial) -> Result<(), Denial> {
    match principal.rights() {
        RoleKind::Operator | RoleKind::Manager | RoleKind::Coding => {
            may_act_on_itself(principal, target, denial)
        }
        RoleKind::Review | RoleKind::Planning => Err(denial),
    }
}

fn may_act_on_itself(principal: &Principal, target: Target<'_>, denial: Denial) -> Result<(), Denial> {
    match (principal.agent, target) {
        (Some(own), Target::Agent(agent)) if own == agent.id => Ok(()),
        (Some(_), Target::Agent(_) | Target::Absent) => Err(Denial::NotItself),
        (Some(_) | None, _) => Err(denial),
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
