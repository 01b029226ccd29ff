//! Wire types of agents' apps, parsed leniently: AgentAPI's status and messages, and the state of our runner.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use crate::domain::app::{
    AgentApiSeen, GitSeen, MessageSeen, RunnerSeen, Speaker, TurnEnd, TurnSeen, TurnState,
};

const STABLE: &str = "stable";
const RUNNING: &str = "running";

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Messages {
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Message {
    id: i64,
    #[serde(default)]
    content: String,
    role: String,
    time: DateTime<Utc>,
}

/// `GET /fleet/state` of our runner.
#[derive(Debug, Deserialize)]
pub(super) struct FleetState {
    status: String,
    turns: Vec<RunnerTurn>,
    #[serde(default)]
    forgotten_turns: usize,
    /// The forgotten turns include the workspace's first prompt.
    #[serde(default)]
    forgotten_prompt: bool,
    #[serde(default)]
    messages: Vec<Message>,
    git: Option<Git>,
}

/// `GET /fleet/state?task=…`: the runner's state of one task.
#[derive(Debug, Deserialize)]
pub(super) struct FleetTask {
    task: Option<RunnerTurn>,
}

#[derive(Debug, Deserialize)]
struct RunnerTurn {
    task_id: Option<String>,
    #[serde(default)]
    source: String,
    /// Missing for a forgotten turn.
    #[serde(default)]
    accepted_at: DateTime<Utc>,
    state: String,
    outcome: Option<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    outcome: String,
    #[serde(default)]
    text: String,
    by: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Git {
    head: Option<String>,
    #[serde(default)]
    dirty: bool,
    #[serde(default)]
    unpushed: i64,
}

/// AgentAPI's error body, a problem document.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Problem {
    #[serde(default)]
    pub(super) detail: String,
    #[serde(default)]
    errors: Vec<ProblemError>,
}

#[derive(Debug, Deserialize)]
struct ProblemError {
    #[serde(default)]
    message: String,
}

impl Status {
    /// Whether AgentAPI defines this status.
    pub(super) fn is_known(&self) -> bool {
        [STABLE, RUNNING].contains(&self.status.as_str())
    }
}

impl Problem {
    pub(super) fn text(&self) -> String {
        let errors = self.errors.iter().map(|error| error.message.as_str()).filter(|text| !text.is_empty());
        let errors: Vec<&str> = errors.collect();
        if errors.is_empty() { self.detail.clone() } else { errors.join("; ") }
    }
}

impl Messages {
    pub(super) fn with(self, status: &Status) -> AgentApiSeen {
        AgentApiSeen { is_stable: status.status == STABLE, messages: messages(self.messages) }
    }
}

impl FleetTask {
    pub(super) fn turn(self) -> Option<TurnSeen> {
        self.task.map(TurnSeen::from)
    }
}

impl From<FleetState> for RunnerSeen {
    fn from(state: FleetState) -> Self {
        let turns = state.turns.into_iter().map(TurnSeen::from);
        Self {
            is_stable: state.status == STABLE,
            turns: forgotten_prompt(state.forgotten_prompt).into_iter().chain(turns).collect(),
            n_forgotten: state.forgotten_turns,
            git: state.git.map(|git| GitSeen {
                head: git.head,
                is_dirty: git.dirty,
                n_unpushed: git.unpushed,
            }),
            messages: messages(state.messages),
        }
    }
}

impl From<RunnerTurn> for TurnSeen {
    fn from(turn: RunnerTurn) -> Self {
        let state = match (turn.state.as_str(), turn.outcome) {
            ("queued", _) => TurnState::Queued,
            ("forgotten", _) => TurnState::Ended(TurnEnd::Forgotten),
            ("ended", Some(outcome)) => TurnState::Ended(outcome.into()),
            // An unknown state, from a newer runner, does not end the turn.
            (_, _) => TurnState::Working,
        };
        let is_prompt = turn.source == "prompt";
        Self { key: turn.task_id, is_prompt, accepted_at: turn.accepted_at, state }
    }
}

impl From<Outcome> for TurnEnd {
    fn from(outcome: Outcome) -> Self {
        let text = outcome.text;
        match (outcome.outcome.as_str(), outcome.by.as_deref()) {
            ("complete", _) => Self::Complete { text },
            ("question", _) => Self::Question { text },
            ("failed", _) => Self::Failed { text },
            ("interrupted", Some("stop")) => Self::Stopped,
            ("interrupted", Some("park")) => Self::Parked,
            ("interrupted", Some("unbegun")) => Self::Unbegun,
            ("interrupted", Some("crash")) => Self::Crashed,
            ("interrupted", _) => Self::Interrupted,
            (word, _) => Self::Unknown { word: word.to_owned() },
        }
    }
}

fn forgotten_prompt(is_forgotten: bool) -> Option<TurnSeen> {
    is_forgotten.then(|| TurnSeen {
        key: None,
        is_prompt: true,
        accepted_at: DateTime::default(),
        state: TurnState::Ended(TurnEnd::Forgotten),
    })
}

/// Messages with an unknown role are left out.
fn messages(messages: Vec<Message>) -> Vec<MessageSeen> {
    let seen = |message: Message| {
        let role = match message.role.as_str() {
            "user" => Speaker::User,
            "agent" => Speaker::Agent,
            _ => return None,
        };
        Some(MessageSeen { id: message.id, role, content: message.content, time: message.time })
    };
    messages.into_iter().filter_map(seen).collect()
}
