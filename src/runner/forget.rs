//! Keeps a conversation within bounds: old turns are folded into a summary.

use uuid::Uuid;

use super::conversation::{Conversation, Progress, Turn};
use super::entry::{Entry, Forgotten, Source, TaskKey};
use crate::engine::ConversationUsage;

/// Limits on a kept conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) n_turns: usize,
    pub(super) n_bytes: usize,
    pub(super) n_tasks: usize,
}

pub(super) const BOUNDS: Bounds = Bounds { n_turns: 1_000, n_bytes: 4 * 1024 * 1024, n_tasks: 10_000 };

/// The number of remembered withdrawals.
const MOST_WITHDRAWN: usize = 256;

impl Conversation {
    /// Folds the oldest ended turns beyond the limits. The newest turn always stays.
    pub(super) fn forget(&mut self, bounds: Bounds) {
        let mut n_bytes: usize = self.turns.iter().map(Turn::n_bytes).sum();
        let mut n_turns = self.turns.len();
        let n_folded = self.turns.iter().take_while(|turn| {
            let is_too_much = n_turns > bounds.n_turns || n_bytes > bounds.n_bytes;
            let is_folded = is_too_much && n_turns > 1 && turn.is_ended();
            n_bytes -= turn.n_bytes();
            n_turns -= 1;
            is_folded
        });
        let n_folded = n_folded.count();
        for turn in self.turns.drain(..n_folded) {
            self.forgotten.take(turn);
        }
        let n_old = self.withdrawn.len().saturating_sub(MOST_WITHDRAWN);
        self.forgotten.tasks.extend(self.withdrawn.drain(..n_old).map(|(task_id, _)| task_id));
        let n_surplus = self.forgotten.tasks.len().saturating_sub(bounds.n_tasks);
        self.forgotten.tasks.drain(..n_surplus);
    }

    /// The shortest journal with the same content.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry::Forgotten(self.forgotten.clone())];
        entries.extend(self.session.clone().map(Entry::Session));
        entries.extend(self.base.clone().map(|commit| Entry::Base { commit }));
        let accepted = self.turns.iter().map(|turn| Entry::Accepted {
            at: turn.accepted_at,
            source: turn.source,
            task_id: turn.task_id.clone(),
            content: turn.content.clone(),
            is_continued: turn.is_continued,
        });
        entries.extend(accepted);
        let withdrawn = self.withdrawn.iter().cloned();
        entries.extend(withdrawn.map(|(task_id, at)| Entry::Withdrawn { at, task_id }));
        entries.extend(self.numbered().flat_map(|(number, turn)| progress(number, turn)));
        entries
    }
}

impl Forgotten {
    fn take(&mut self, turn: Turn) {
        self.n_turns += 1;
        self.has_prompt |= turn.source == Source::Prompt;
        self.usage += turn.usage();
        self.unknown_runs = self.unknown_runs.saturating_add(u64::from(turn.is_unknown()));
        self.tasks.extend(turn.task_id);
    }
}

impl Turn {
    fn n_bytes(&self) -> usize {
        let n_answered = match &self.progress {
            Progress::Queued | Progress::Working { .. } => 0,
            Progress::Ended { text, .. } => text.len(),
        };
        self.content.len() + n_answered + self.task_id.as_ref().map_or(0, TaskKey::n_bytes)
    }
}

fn progress(number: usize, turn: &Turn) -> Vec<Entry> {
    match &turn.progress {
        Progress::Queued => Vec::new(),
        Progress::Working { run, generation, since, usage, .. } => vec![
            Entry::Started { at: *since, turn: number, run: run.0, generation: *generation },
            Entry::Spent { turn: number, usage: *usage, session: ConversationUsage::default() },
        ],
        Progress::Ended { since, at, outcome, text, usage, is_unknown } => {
            let started = Entry::Started { at: *since, turn: number, run: Uuid::nil(), generation: 0 };
            let ended = Entry::Ended {
                at: *at,
                turn: number,
                outcome: outcome.clone(),
                text: text.clone(),
                usage: *usage,
                session: ConversationUsage::default(),
                is_unknown: *is_unknown,
            };
            vec![started, ended]
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use proptest::prelude::*;

    use super::*;
    use crate::engine::Usage;
    use crate::runner::entry::{Outcome, Session};

    const AT: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn accepted(number: usize) -> Entry {
        let source = if number == 0 { Source::Prompt } else { Source::User };
        let task_id = TaskKey::parse(format!("task-{number}"));
        Entry::Accepted { at: AT, source, task_id, content: format!("message {number}"), is_continued: false }
    }

    fn ended(turn: usize) -> [Entry; 2] {
        let usage = Usage { input_tokens: 1, output_tokens: 2, cost_usd: Some(0.5) };
        let (text, session) = ("done".to_owned(), ConversationUsage::default());
        let (outcome, is_unknown) = (Outcome::Complete { text: text.clone() }, turn.is_multiple_of(2));
        let run = Uuid::nil();
        [
            Entry::Started { at: AT, turn, run, generation: 0 },
            Entry::Ended { at: AT, turn, outcome, text, usage, session, is_unknown },
        ]
    }

    fn conversation(n_accepted: usize, n_ended: usize) -> Conversation {
        let session =
            Session { engine: "claude".into(), id: "s".into(), spent: ConversationUsage::default() };
        let mut entries: Vec<Entry> = (0..n_accepted).map(accepted).collect();
        entries.push(Entry::Session(session));
        entries.extend((0..n_ended).flat_map(ended));
        Conversation::replay(entries)
    }

    /// The data that must survive any folding.
    fn known(conversation: &Conversation, n_accepted: usize) -> impl PartialEq + std::fmt::Debug {
        let tasks: Vec<bool> = (0..n_accepted)
            .filter_map(|number| TaskKey::parse(format!("task-{number}")))
            .map(|task| !matches!(conversation.task(&task), crate::runner::conversation::TaskLookup::Never))
            .collect();
        let queued: Vec<usize> = conversation.queued().map(|(number, _)| number).collect();
        let next = conversation.forgotten.n_turns + conversation.turns.len();
        (
            conversation.usage_record(),
            conversation.has_prompt(),
            tasks,
            queued,
            next,
            conversation.is_stable(),
        )
    }

    proptest! {
        #[test]
        fn forgetting_loses_words_only_and_the_short_journal_tells_the_same(
            n_accepted in 0_usize..20, share in 0.0_f64..=1.0, n_turns in 1_usize..10, n_bytes in 0_usize..400,
        ) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
                reason = "small numbers")]
            let n_ended = (n_accepted as f64 * share) as usize;
            let mut conversation = conversation(n_accepted, n_ended);
            let before = format!("{:?}", known(&conversation, n_accepted));
            conversation.forget(Bounds { n_turns, n_bytes, n_tasks: 100 });
            prop_assert_eq!(&format!("{:?}", known(&conversation, n_accepted)), &before);
            let again = Conversation::replay(conversation.entries());
            prop_assert_eq!(&format!("{:?}", known(&again, n_accepted)), &before);
            prop_assert_eq!(again.entries(), conversation.entries());
            let n_waiting = n_accepted - n_ended;
            prop_assert!(conversation.turns.len() <= n_turns.max(n_waiting).max(1));
        }
    }

    #[test]
    fn only_so_many_forgotten_tasks_are_known_by_name() {
        let mut conversation = conversation(5, 5);
        conversation.forget(Bounds { n_turns: 1, n_bytes: usize::MAX, n_tasks: 2 });
        let expected: Vec<_> =
            ["task-2", "task-3"].iter().filter_map(|task| TaskKey::parse((*task).into())).collect();
        assert_eq!(conversation.forgotten.tasks, expected);
    }
}
