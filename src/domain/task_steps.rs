//! How each step of a task changes its record.

use chrono::{DateTime, TimeDelta, Utc};

use super::app::{AppSeen, GitSeen};
use super::question;
use super::task::{Channel, Delivery, Reached, Task, TaskState, Verified};
use super::task_plan::{Again, Ending};
use super::text::cut;

/// An outcome says how it went; the whole answer is in the log.
const MAX_OUTCOME: usize = 8_000;

impl Task {
    /// It is about to be sent. The first sending counts: what the agent says of the task comes after it.
    pub fn send(&mut self, channel: Channel, base: Option<i64>, (generation, now): (i64, DateTime<Utc>)) {
        let at = self.sent_at().unwrap_or(now);
        self.work.delivery = Delivery::Sending { channel, at, base, is_answered: false };
        self.entry.generation = generation;
        if self.state() == TaskState::Queued {
            self.set_state(TaskState::Delivering);
        }
    }

    /// The app said that it took the message; whether the agent has it is still to be seen.
    pub fn answered(&mut self) {
        if let Delivery::Sending { is_answered, .. } = &mut self.work.delivery {
            *is_answered = true;
        }
    }

    /// Nothing of it was taken, so sending it later is no repetition.
    pub fn unsent(&mut self) {
        self.work.delivery = Delivery::Unsent;
    }

    /// The agent has it.
    pub fn take(&mut self, channel: Channel, base: Option<i64>, (generation, now): (i64, DateTime<Utc>)) {
        let at = self.sent_at().unwrap_or(now);
        self.work.delivery = Delivery::Taken { channel, at, base };
        self.work.working_since = self.work.working_since.or(Some(now));
        self.work.last_sign = Some(now);
        self.entry.generation = generation;
        self.set_state(TaskState::Working);
    }

    /// It is told again, under a name the runner has not heard. What was said and done of the attempt before is over;
    /// the time it took counts only if the work goes on from there.
    pub fn resume(&mut self, again: Again) {
        self.work.parked_until = None;
        self.work.is_continued = again == Again::GoOn;
        if again == Again::Whole {
            self.work.worked = TimeDelta::zero();
        }
        self.work.attempt += 1;
        self.work.delivery = Delivery::Unsent;
        self.work.working_since = None;
        self.work.claim = None;
        self.work.reached = Reached::None;
    }

    /// Its end is the last sign of it, from which the next one has to be taken up.
    pub fn end(&mut self, ending: &Ending, git: Option<&GitSeen>, now: DateTime<Utc>) {
        self.set_state(ending.state);
        self.work.last_sign = Some(now);
        let bounded = if ending.needs_answer { question::bounded } else { cut };
        self.entry.outcome = ending.outcome.as_deref().map(|text| bounded(text, MAX_OUTCOME));
        self.entry.needs_user_attention = ending.needs_answer;
        self.work.reached = self.work.reached.max(ending.reached);
        self.work.silent_since = None;
        self.work.verified = git.map(|git| verified(git, self.work.head_before.as_deref()));
    }

    /// Notes where the repository stands before the work; what the workspace started with may be over already.
    pub fn note_start(&mut self, app: &AppSeen) {
        let AppSeen::Runner(seen) = app else { return };
        let is_over = self.is_prompt() && seen.turns.iter().any(|turn| turn.is_prompt && turn.is_ended());
        if self.work.delivery == Delivery::Unsent && !is_over {
            self.note_head(seen.git.as_ref().map(|git| git.head.clone().unwrap_or_default()));
        }
    }

    /// The first commit that was seen counts: a task that is told again has begun before.
    pub fn note_head(&mut self, head: Option<String>) {
        self.work.head_before = self.work.head_before.take().or(head);
    }

    fn sent_at(&self) -> Option<DateTime<Utc>> {
        match self.work.delivery {
            Delivery::Sending { at, .. } | Delivery::Taken { at, .. } => Some(at),
            Delivery::Unsent => None,
        }
    }

    fn set_state(&mut self, state: TaskState) {
        state.word().clone_into(&mut self.entry.state);
    }
}

fn verified(git: &GitSeen, head_before: Option<&str>) -> Verified {
    Verified {
        commit: git.head.clone(),
        is_new: head_before.map(|before| git.head.as_deref().unwrap_or_default() != before),
        is_pushed: git.n_unpushed == 0,
        is_clean: !git.is_dirty,
    }
}
