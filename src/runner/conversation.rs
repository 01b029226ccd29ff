//! The conversation: turns in the order accepted, each run once, restored from the journal.
//!
//! Every turn has two messages, the user's (number 2n) and the agent's answer (2n + 1), so that numbers reflect the
//! order even while later turns are queued.

use chrono::{DateTime, Utc};

use super::entry::{Entry, Forgotten, Outcome, Session, Source, TaskKey};
use super::process::Transcript;
use crate::domain::id::RunId;
use crate::engine::{ConversationUsage, Usage, UsageRecord};

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) source: Source,
    pub(super) task_id: Option<TaskKey>,
    pub(super) content: String,
    pub(super) is_continued: bool,
    pub(super) accepted_at: DateTime<Utc>,
    pub(super) progress: Progress,
}

#[derive(Debug)]
pub(super) enum Progress {
    Queued,
    Working {
        run: RunId,
        generation: u64,
        since: DateTime<Utc>,
        text: Transcript,
        usage: Usage,
    },
    Ended {
        since: DateTime<Utc>,
        at: DateTime<Utc>,
        outcome: Outcome,
        text: String,
        usage: Usage,
        is_unknown: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// Summary of the turns that were removed.
    pub(super) forgotten: Forgotten,
    pub(super) turns: Vec<Turn>,
    /// Tasks that were canceled before they arrived, oldest first.
    pub(super) withdrawn: Vec<(TaskKey, DateTime<Utc>)>,
    pub(super) session: Option<Session>,
    /// The commit that the agent started from; none if there was no repository before the first turn.
    pub(super) base: Option<String>,
}

/// The state of a task in the conversation.
#[derive(Debug)]
pub(super) enum TaskLookup<'a> {
    Turn(usize, &'a Turn),
    /// It ended, and its turn was removed.
    Forgotten,
    /// It was canceled before it arrived, at this time.
    Withdrawn(DateTime<Utc>),
    Never,
}

impl Conversation {
    pub(super) fn replay(entries: Vec<Entry>) -> Self {
        let mut conversation = Self::default();
        entries.into_iter().for_each(|entry| conversation.apply(entry));
        conversation
    }

    /// Applies a fact that is already in the journal. Facts about unknown turns are ignored.
    pub(super) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Forgotten(forgotten) => self.forgotten = forgotten,
            Entry::Session(session) => self.session = Some(session),
            Entry::Base { commit } => self.base = Some(commit),
            Entry::Accepted { at, source, task_id, content, is_continued } => {
                let progress = Progress::Queued;
                self.turns.push(Turn { source, task_id, content, is_continued, accepted_at: at, progress });
            }
            Entry::Withdrawn { at, task_id } => self.withdrawn.push((task_id, at)),
            Entry::Started { at, turn, run, generation } => {
                let (text, usage) = (Transcript::default(), Usage::default());
                self.progress(
                    turn,
                    Progress::Working { run: RunId(run), generation, since: at, text, usage },
                );
            }
            Entry::Spent { turn, usage, session } => self.set_usage(turn, usage, session),
            Entry::Ended { at, turn, outcome, text, usage, session, is_unknown } => {
                let since = self.turn(turn).map_or(at, Turn::since);
                self.progress(turn, Progress::Ended { since, at, outcome, text, usage, is_unknown });
                self.count(session);
            }
        }
    }

    /// Appends to the agent's answer in the running turn.
    pub(super) fn append_answer(&mut self, turn: usize, added: &str) {
        if let Some(Turn { progress: Progress::Working { text, .. }, .. }) = self.turn_mut(turn) {
            text.push(added);
        }
    }

    /// Sets the usage of the running turn so far.
    pub(super) fn set_usage(&mut self, turn: usize, used: Usage, session: ConversationUsage) {
        if let Some(Turn { progress: Progress::Working { usage, .. }, .. }) = self.turn_mut(turn) {
            *usage = used;
        }
        self.count(session);
    }

    pub(super) fn turn(&self, number: usize) -> Option<&Turn> {
        self.turns.get(number.checked_sub(self.forgotten.n_turns)?)
    }

    /// The kept turns with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &Turn)> {
        self.turns.iter().enumerate().map(|(index, turn)| (self.forgotten.n_turns + index, turn))
    }

    /// Whether a turn has ever begun.
    pub(super) fn has_begun(&self) -> bool {
        let is_queued = |turn: &Turn| matches!(turn.progress, Progress::Queued);
        self.forgotten.n_turns > 0 || !self.turns.iter().all(is_queued)
    }

    /// Whether every accepted turn has ended.
    pub(super) fn is_stable(&self) -> bool {
        self.turns.iter().all(Turn::is_ended)
    }

    pub(super) fn task(&self, task_id: &TaskKey) -> TaskLookup<'_> {
        let withdrawn = self.withdrawn.iter().find(|(withdrawn, _)| withdrawn == task_id);
        match self.numbered().find(|(_, turn)| turn.is_named(task_id)) {
            Some((number, turn)) => TaskLookup::Turn(number, turn),
            None if let Some((_, at)) = withdrawn => TaskLookup::Withdrawn(*at),
            None if self.forgotten.tasks.contains(task_id) => TaskLookup::Forgotten,
            None => TaskLookup::Never,
        }
    }

    pub(super) fn has_prompt(&self) -> bool {
        self.forgotten.has_prompt || self.turns.iter().any(|turn| turn.source == Source::Prompt)
    }

    pub(super) fn queued(&self) -> impl Iterator<Item = (usize, &Turn)> {
        self.numbered().filter(|(_, turn)| matches!(turn.progress, Progress::Queued))
    }

    /// The usage of all turns, including the running one.
    pub(super) fn usage(&self) -> Usage {
        let mut total = self.forgotten.usage;
        self.turns.iter().for_each(|turn| total += turn.usage());
        total
    }

    /// The same for publication, with the number of turns without reported usage.
    pub(super) fn usage_record(&self) -> UsageRecord {
        let n_unknown = self.turns.iter().filter(|turn| turn.is_unknown()).count();
        let unknown_runs = self.forgotten.unknown_runs.saturating_add(n_unknown as u64);
        UsageRecord { usage: self.usage(), unknown_runs }
    }

    /// An engine without a count reports zero.
    fn count(&mut self, spent: ConversationUsage) {
        if let Some(session) = &mut self.session
            && spent.is_as_new_as(&session.spent)
        {
            session.spent = spent;
        }
    }

    fn turn_mut(&mut self, number: usize) -> Option<&mut Turn> {
        self.turns.get_mut(number.checked_sub(self.forgotten.n_turns)?)
    }

    fn progress(&mut self, turn: usize, progress: Progress) {
        if let Some(turn) = self.turn_mut(turn) {
            turn.progress = progress;
        }
    }
}

impl Turn {
    /// The initial prompt has a reserved name.
    pub(super) fn is_named(&self, task_id: &TaskKey) -> bool {
        let is_prompt = self.source == Source::Prompt && task_id.is_prompt();
        is_prompt || self.task_id.as_ref() == Some(task_id)
    }

    /// When the agent began to answer; before that, when the message arrived.
    pub(super) fn since(&self) -> DateTime<Utc> {
        match self.progress {
            Progress::Queued => self.accepted_at,
            Progress::Working { since, .. } | Progress::Ended { since, .. } => since,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.progress, Progress::Ended { .. })
    }

    /// Whether an engine ran for it and reported no usage.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.progress, Progress::Ended { is_unknown: true, .. })
    }

    pub(super) fn usage(&self) -> Usage {
        match self.progress {
            Progress::Queued => Usage::default(),
            Progress::Working { usage, .. } | Progress::Ended { usage, .. } => usage,
        }
    }
}
