//! Squads: members with one role and one task each, their prompts and their results.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::engine_word::EngineWord;
use super::id::{AgentId, RunId, SquadId, TaskId};
use super::run::{RunEnd, RunState};
use super::word_enum::word_enum;

/// Rules appended to every member's task.
const FOOTER: &str = "\n\n---\n\n# Setup & Reporting Rules\n\nIf you notice any setup or environment problems that prevent you from doing the task correctly,\nyou MUST report them clearly as SETUP / ENVIRONMENT ISSUES.\n\nExplain what you observed and suggest specific fixes for the human.\nDo NOT fabricate a successful implementation if the environment blocks you.";

word_enum! {
    /// Whether members can continue earlier conversations.
    StateMode {
        Stateless = "stateless",
        Stateful = "stateful",
    }
}

word_enum! {
    ExecutionMode {
        Sequential = "sequential",
        Parallel = "parallel",
    }
}

word_enum! {
    MemberStatus {
        Waiting = "waiting",
        Running = "running",
        Completed = "completed",
        Error = "error",
        Timeout = "timeout",
    }
}

/// A squad with its members in request order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Squad {
    pub id: SquadId,
    /// The signature of the principal that started it.
    pub principal: String,
    pub state_mode: StateMode,
    pub execution_mode: ExecutionMode,
    /// The pause between sequential members.
    pub delay: Duration,
    /// The time limit of each member.
    pub timeout: Duration,
    /// The caller's metadata, as JSON.
    pub metadata: Option<String>,
    pub created_at: DateTime<Utc>,
    pub members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Also the id of its task in the agent's history.
    pub id: TaskId,
    pub role: String,
    pub task: String,
    /// The whole prompt.
    pub prompt: String,
    /// The requested directory; the workspace's own directory if none.
    pub wanted_cwd: Option<String>,
    /// The working directory, absolute with links resolved; none until it is resolved.
    pub cwd: Option<String>,
    /// The agent whose workspace it runs in; none if unresolved.
    pub agent: Option<AgentId>,
    pub chat: Option<MemberChat>,
    /// Once chosen.
    pub engine: Option<EngineWord>,
    /// Its run; replaced if it never started.
    pub run: Option<MemberRun>,
    /// The reason for an end without a run.
    pub refusal: Option<String>,
    pub began_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
}

/// The run of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRun {
    pub id: RunId,
    pub state: RunState,
}

/// The progress of a squad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SquadProgress {
    pub n_ended: usize,
    pub n_members: usize,
}

/// A squad without prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SquadSummary {
    pub id: SquadId,
    pub created_at: DateTime<Utc>,
    /// In request order.
    pub members: Vec<MemberSummary>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSummary {
    pub id: TaskId,
    pub role: String,
    pub status: MemberStatus,
}

/// The conversation of a member with its engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChat {
    /// The engine's id of the conversation; some engines report it only after the start.
    pub id: Option<String>,
    pub is_follow_up: bool,
}

/// A conversation that can be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chat {
    pub id: String,
    pub principal: String,
    pub agent: AgentId,
    pub engine: EngineWord,
    pub used_at: DateTime<Utc>,
}

/// The part of a prompt that introduces the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persona<'a> {
    Once(&'a str),
    NewChat(&'a str),
    /// The conversation contains the role already.
    KnownChat,
}

/// The prompt: role, task, rules.
pub fn prompt(persona: Persona<'_>, task: &str) -> String {
    match persona {
        Persona::Once(role) => format!("# Role\n\n{role}\n\n---\n\n# Task\n\n{task}{FOOTER}"),
        Persona::NewChat(role) => format!("# Role\n\n{role}\n\n---\n\n# Initial Task\n\n{task}{FOOTER}"),
        Persona::KnownChat => format!("# Task\n\n{task}{FOOTER}"),
    }
}

/// The task in such a prompt; any other text is a task itself.
pub fn task_of(prompt: &str) -> &str {
    let body = prompt.strip_suffix(FOOTER).unwrap_or(prompt);
    let headings = ["\n\n---\n\n# Task\n\n", "\n\n---\n\n# Initial Task\n\n"];
    let role_and_task = body.strip_prefix("# Role\n\n").unwrap_or_default();
    let behind = headings.iter().filter_map(|heading| Some(role_and_task.split_once(heading)?.1));
    let after_role = behind.max_by_key(|task| task.len());
    after_role.or_else(|| body.strip_prefix("# Task\n\n")).unwrap_or(body)
}

/// How a member ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberEnd {
    pub status: MemberStatus,
    pub reason: Option<String>,
}

impl MemberEnd {
    pub fn error(reason: impl Into<String>) -> Self {
        Self { status: MemberStatus::Error, reason: Some(reason.into()) }
    }

    /// The end of a member by the state of its run; none while the run continues, and if it never started and may be
    /// replaced.
    pub fn of(state: &RunState) -> Option<Self> {
        let end = state.end()?;
        match end {
            RunEnd::Exited { code: 0 } => Some(Self { status: MemberStatus::Completed, reason: None }),
            RunEnd::TimedOut => Some(Self { status: MemberStatus::Timeout, reason: Some(end.to_string()) }),
            RunEnd::Exited { .. } | RunEnd::Signaled { .. } | RunEnd::Canceled | RunEnd::OverBudget => {
                Some(Self::error(end.to_string()))
            }
            RunEnd::Failed { reason } | RunEnd::Lost { reason } => Some(Self::error(reason.clone())),
            RunEnd::Unstarted => None,
        }
    }
}

impl Member {
    /// Ends the member before its start: without a workspace and a conversation.
    pub fn refused(self, reason: String, at: DateTime<Utc>) -> Self {
        let chat = self.chat.map(|chat| MemberChat { id: None, ..chat });
        Self { agent: None, chat, refusal: Some(reason), ended_at: Some(at), ..self }
    }

    pub fn is_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    pub fn status(&self) -> MemberStatus {
        MemberStatus::of(self.ended_at, self.run.as_ref().map(|run| &run.state))
    }

    /// Why it was not started or not completed.
    pub fn reason(&self) -> Option<String> {
        match self.run.as_ref().and_then(|run| MemberEnd::of(&run.state)) {
            Some(end) if self.is_ended() => end.reason,
            Some(_) | None => self.refusal.clone(),
        }
    }

    /// The conversation that the caller can continue. A new conversation is confirmed only by the end of its member.
    pub fn chat_to_continue(&self) -> Option<&str> {
        let chat = self.chat.as_ref().filter(|chat| chat.is_follow_up || self.is_ended())?;
        chat.id.as_deref()
    }
}

impl MemberStatus {
    /// Derived from the run, if there is one. A member counts as ended only after all effects of its end are recorded.
    pub fn of(ended_at: Option<DateTime<Utc>>, run: Option<&RunState>) -> Self {
        match (ended_at, run) {
            (None, None) => Self::Waiting,
            (None, Some(_)) => Self::Running,
            (Some(_), run) => run.and_then(MemberEnd::of).map_or(Self::Error, |end| end.status),
        }
    }

    pub fn is_ended(self) -> bool {
        match self {
            Self::Waiting | Self::Running => false,
            Self::Completed | Self::Error | Self::Timeout => true,
        }
    }
}

impl SquadProgress {
    pub fn is_over(self) -> bool {
        self.n_ended == self.n_members
    }
}

impl SquadSummary {
    pub fn is_ended(&self) -> bool {
        self.members.iter().all(|member| member.status.is_ended())
    }
}

impl Squad {
    pub fn is_ended(&self) -> bool {
        self.members.iter().all(Member::is_ended)
    }

    /// The end of the last member that started.
    pub fn last_end(&self) -> Option<DateTime<Utc>> {
        self.members
            .iter()
            .filter(|member| member.began_at.is_some())
            .filter_map(|member| member.ended_at)
            .max()
    }

    /// The time until the next member may start; never longer than the delay, even after a jump of the clock.
    pub fn pause(&self, last_end: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Duration {
        let Some(last_end) = last_end else { return Duration::ZERO };
        let over = (now - last_end).to_std().unwrap_or_default();
        self.delay.saturating_sub(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "\n\n---\n\n# Setup & Reporting Rules\n\nIf you notice any setup or environment problems that prevent you from doing the task correctly,\nyou MUST report them clearly as SETUP / ENVIRONMENT ISSUES.\n\nExplain what you observed and suggest specific fixes for the human.\nDo NOT fabricate a successful implementation if the environment blocks you.";

    #[test]
    fn the_three_forms_of_a_prompt_are_exactly_these() {
        let role = "You test.\n\nCarefully.";
        let task = "Do `this`\n# Role\n";
        assert_eq!(
            [Persona::Once(role), Persona::NewChat(role), Persona::KnownChat].map(|who| prompt(who, task)),
            [
                format!("# Role\n\nYou test.\n\nCarefully.\n\n---\n\n# Task\n\nDo `this`\n# Role\n{RULES}"),
                format!(
                    "# Role\n\nYou test.\n\nCarefully.\n\n---\n\n# Initial Task\n\nDo `this`\n# Role\n{RULES}"
                ),
                format!("# Task\n\nDo `this`\n# Role\n{RULES}"),
            ]
        );
        for who in [Persona::Once(role), Persona::NewChat(role), Persona::KnownChat] {
            assert_eq!(task_of(&prompt(who, task)), task);
        }
        assert_eq!(task_of("Do `this`."), "Do `this`.");
    }

    #[test]
    fn the_status_of_a_member_follows_from_its_process() {
        let now = DateTime::from_timestamp(0, 0);
        let run = |end| RunState::Ended { end, at: DateTime::UNIX_EPOCH };
        let ended = |end: RunEnd| MemberStatus::of(now, Some(&run(end)));
        assert_eq!(MemberStatus::of(None, None), MemberStatus::Waiting);
        assert_eq!(MemberStatus::of(None, Some(&RunState::Running)), MemberStatus::Running);
        let over = run(RunEnd::Exited { code: 0 });
        assert_eq!(MemberStatus::of(None, Some(&over)), MemberStatus::Running, "its end is not recorded yet");
        assert_eq!(ended(RunEnd::Exited { code: 0 }), MemberStatus::Completed);
        assert_eq!(ended(RunEnd::Exited { code: 1 }), MemberStatus::Error);
        assert_eq!(ended(RunEnd::TimedOut), MemberStatus::Timeout);
        assert_eq!(ended(RunEnd::OverBudget), MemberStatus::Error);
        assert_eq!(ended(RunEnd::Unstarted), MemberStatus::Error, "it was ended before it began again");
        assert_eq!(MemberStatus::of(now, None), MemberStatus::Error);
    }

    #[test]
    fn a_member_waits_for_what_is_left_of_the_delay_and_never_longer_than_it() {
        let second = |n: i64| DateTime::from_timestamp(1_000 + n, 0).unwrap();
        let squad = Squad {
            id: SquadId::fresh(),
            principal: "ann".to_owned(),
            state_mode: StateMode::Stateless,
            execution_mode: ExecutionMode::Sequential,
            delay: Duration::from_secs(3),
            timeout: Duration::from_secs(1),
            metadata: None,
            created_at: second(0),
            members: Vec::new(),
        };
        let pause = |last_end, now| squad.pause(last_end, second(now)).as_secs();
        assert_eq!(pause(None, 0), 0);
        let after = [0, 1, 3, 9, -5].map(|now| pause(Some(second(0)), now));
        assert_eq!(after, [3, 2, 0, 0, 3]);
    }
}
