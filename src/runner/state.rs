//! The state that the worker publishes, and its messages in AgentAPI.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::conversation::{Conversation, Progress, Turn};
use crate::git::state::GitState;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) conversation: Conversation,
    /// As of the last run; none without a repository.
    pub(super) git: Option<GitState>,
}

/// One message of the conversation; its number is its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Message {
    pub(super) id: usize,
    pub(super) content: String,
    pub(super) role: Role,
    pub(super) time: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    User,
    Agent,
}

impl State {
    /// The messages so far. A queued turn is not included.
    pub(super) fn messages(&self) -> Vec<Message> {
        let n_begun = self.conversation.turns.iter().take_while(|turn| turn.is_ended()).count() + 1;
        let begun = self.conversation.numbered().take(n_begun);
        begun.flat_map(|(number, turn)| messages(number, turn)).collect()
    }
}

fn messages(number: usize, turn: &Turn) -> impl Iterator<Item = Message> {
    let id = 2 * number;
    let user = Message { id, content: turn.content.clone(), role: Role::User, time: turn.accepted_at };
    let answer = match &turn.progress {
        Progress::Queued => None,
        Progress::Working { since, text, .. } => Some((text.text(), *since)),
        Progress::Ended { since, text, .. } => Some((text.clone(), *since)),
    };
    let agent = answer.map(|(content, time)| Message { id: id + 1, content, role: Role::Agent, time });
    [Some(user), agent].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::engine::{ConversationUsage, Usage};
    use crate::runner::entry::{Entry, Outcome, Source};

    const AT: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn accepted(content: &str) -> Entry {
        Entry::Accepted {
            at: AT,
            source: Source::User,
            task_id: None,
            content: content.to_owned(),
            is_continued: false,
        }
    }

    fn started(turn: usize) -> Entry {
        Entry::Started { at: AT, turn, run: Uuid::nil(), generation: 1 }
    }

    fn shown(entries: Vec<Entry>) -> Vec<(usize, String)> {
        let state = State { conversation: Conversation::replay(entries), git: None };
        state.messages().into_iter().map(|message| (message.id, message.content)).collect()
    }

    #[test]
    fn answers_follow_their_questions_and_what_waits_is_not_shown() {
        let outcome = Outcome::Complete { text: "done".into() };
        let (text, usage, session) = ("did it".into(), Usage::default(), ConversationUsage::default());
        let ended = Entry::Ended { at: AT, turn: 0, outcome, text, usage, session, is_unknown: false };
        let accepted = vec![accepted("first"), accepted("second"), accepted("third")];
        let message = |id, content: &str| (id, content.to_owned());
        assert_eq!(shown(accepted.clone()), [message(0, "first")]);
        let mut entries = accepted;
        entries.extend([started(0), ended]);
        let answered = [message(0, "first"), message(1, "did it"), message(2, "second")];
        assert_eq!(shown(entries.clone()), answered);
        entries.push(started(1));
        assert_eq!(shown(entries), [&answered[..], &[message(3, "")]].concat());
    }
}
