//! The change of a task's record in each step.

use chrono::{DateTime, TimeDelta, Utc};

use super::app::{AppSeen, GitSeen};
use super::question;
use super::task::{
    Channel, Delivery, EndState, Escalation, Sending, Task, TaskEnd, TaskStage, Verified, Work,
};
use super::task_plan::{Ending, Redelivery};
use super::text::cut;

/// The stored length of an outcome; the log has the whole answer.
const MAX_OUTCOME: usize = 8_000;

impl Task {
    /// Records a send. The time of the first send is kept: reports about the task come later.
    pub fn send(&mut self, channel: Channel, base: Option<i64>, (generation, now): (i64, DateTime<Utc>)) {
        let at = self.delivery().sent_at().unwrap_or(now);
        self.entry.generation = generation;
        self.note_message(Some(Sending { channel, at, base, is_acknowledged: false }));
    }

    /// The app acknowledged the message; whether the agent has it is not known yet.
    pub fn mark_acknowledged(&mut self) {
        if let Delivery::Sending(sending) = self.delivery() {
            self.note_message(Some(Sending { is_acknowledged: true, ..sending }));
        }
    }

    /// The message was refused, so a later send is not a repetition.
    pub fn mark_refused(&mut self) {
        let no_message = None;
        self.note_message(no_message);
    }

    /// Records the delivery.
    pub fn mark_delivered(
        &mut self,
        channel: Channel,
        base: Option<i64>,
        (generation, now): (i64, DateTime<Utc>),
    ) {
        let at = self.delivery().sent_at().unwrap_or(now);
        let since = self.working_since().or(Some(now));
        self.work.last_sign = Some(now);
        self.entry.generation = generation;
        self.note_work(Work { delivery: Delivery::Delivered { channel, at, base }, since });
    }

    /// A separate process executes the task.
    pub fn begin_run(&mut self, generation: i64, since: Option<DateTime<Utc>>) {
        self.entry.generation = generation;
        self.note_work(Work { since, ..self.stage.work() });
    }

    /// Starts the next attempt, with a key that the runner does not know. Claims and steps of the attempt before are
    /// dropped; its working time is kept only if the session continues.
    pub fn resume(&mut self, redelivery: Redelivery) {
        self.work.parked_until = None;
        self.work.is_continued = redelivery == Redelivery::Continue;
        if redelivery == Redelivery::FullText {
            self.work.worked = TimeDelta::zero();
        }
        self.work.attempt += 1;
        self.work.claim = None;
        self.work.reached = Escalation::None;
        self.note_work(Work::NONE);
    }

    /// The end is the last sign of life, from which the next task's waiting time counts.
    pub fn end(&mut self, ending: &Ending, git: Option<&GitSeen>, now: DateTime<Utc>) {
        self.work.last_sign = Some(now);
        self.work.reached = self.work.reached.max(ending.reached);
        self.work.silent_since = None;
        let bounded = if ending.needs_answer { question::bounded } else { cut };
        let outcome = ending.outcome.as_deref().map(|text| bounded(text, MAX_OUTCOME));
        let end = TaskEnd { state: ending.state, outcome, needs_answer: ending.needs_answer };
        self.note_end(end, git.map(|git| verified(git, self.work.head_before.as_deref())));
    }

    /// The separate process has ended.
    pub fn end_run(&mut self, state: EndState, outcome: Option<String>) {
        if state == EndState::Canceled {
            self.work.reached = Escalation::Signals;
        }
        let nothing_seen = None;
        self.note_end(TaskEnd { state, outcome, needs_answer: false }, nothing_seen);
    }

    /// Records the commit before the work; a prompt may have begun before.
    pub fn note_start(&mut self, app: &AppSeen) {
        let AppSeen::Runner(seen) = app else { return };
        let is_over = self.is_prompt() && seen.turns.iter().any(|turn| turn.is_prompt && turn.is_ended());
        if self.delivery() == Delivery::Unsent && !is_over {
            self.note_head(seen.git.as_ref().map(|git| git.head.clone().unwrap_or_default()));
        }
    }

    /// The first commit is kept, because a redelivered task began earlier.
    pub fn note_head(&mut self, head: Option<String>) {
        self.work.head_before = self.work.head_before.take().or(head);
    }

    /// A redelivered task keeps its state.
    fn note_message(&mut self, sending: Option<Sending>) {
        match (&mut self.stage, sending) {
            (TaskStage::Queued, None) | (TaskStage::Ended { .. }, _) => {}
            (TaskStage::Queued, Some(_)) | (TaskStage::Delivering(_), _) => {
                self.stage = TaskStage::Delivering(sending);
            }
            (TaskStage::Working(work), _) => work.delivery = sending.into(),
        }
    }

    fn note_work(&mut self, work: Work) {
        match self.stage {
            TaskStage::Queued | TaskStage::Delivering(_) | TaskStage::Working(_) => {
                self.stage = TaskStage::Working(work);
            }
            TaskStage::Ended { .. } => {}
        }
    }

    /// The first end is kept.
    fn note_end(&mut self, end: TaskEnd, verified: Option<Verified>) {
        let work = self.stage.work();
        if !self.state().is_ended() {
            self.stage = TaskStage::Ended { end, verified, work };
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::history::HistoryLine;
    use crate::domain::id::{AgentId, TaskId};
    use crate::domain::task::{TaskOrigin, TaskSource, TaskWork};
    use crate::domain::task_plan::ending;

    fn task() -> Task {
        let entry = HistoryLine {
            agent_id: AgentId::fresh(),
            message: "do it".into(),
            source: TaskSource::Manager,
            generation: 1,
            created_at: at(0),
        };
        Task::accepted(TaskId::fresh(), entry, TaskWork::fresh(TaskOrigin::Given))
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn sending(seconds: i64, is_acknowledged: bool) -> Sending {
        Sending { channel: Channel::Runner, at: at(seconds), base: None, is_acknowledged }
    }

    #[test]
    fn a_task_is_delivering_until_delivered_and_stays_working_in_later_attempts() {
        let mut task = task();
        task.mark_refused();
        assert_eq!(task.stage, TaskStage::Queued, "nothing was sent");
        task.send(Channel::Runner, None, (1, at(1)));
        task.mark_acknowledged();
        assert_eq!(task.stage, TaskStage::Delivering(Some(sending(1, true))));
        task.mark_refused();
        assert_eq!(task.stage, TaskStage::Delivering(None));
        task.mark_delivered(Channel::Runner, None, (1, at(2)));
        let delivery = Delivery::Delivered { channel: Channel::Runner, at: at(2), base: None };
        assert_eq!(task.stage, TaskStage::Working(Work { delivery, since: Some(at(2)) }));
        task.resume(Redelivery::Continue);
        task.send(Channel::Runner, None, (2, at(3)));
        let delivery = Delivery::Sending(sending(3, false));
        assert_eq!(task.stage, TaskStage::Working(Work { delivery, since: None }));
    }

    #[test]
    fn an_ended_task_keeps_its_first_end_and_how_far_it_had_come() {
        let mut task = task();
        task.mark_delivered(Channel::Exec, None, (1, at(2)));
        let work = task.stage.work();
        task.end(&ending(EndState::Done, Some("did it")), None, at(3));
        let end = TaskEnd { state: EndState::Done, outcome: Some("did it".into()), needs_answer: false };
        let ended = TaskStage::Ended { end, verified: None, work };
        assert_eq!(task.stage, ended);
        task.end(&ending(EndState::Failed, Some("too late")), None, at(4));
        task.send(Channel::Exec, None, (1, at(4)));
        task.mark_delivered(Channel::Exec, None, (1, at(5)));
        assert_eq!(task.stage, ended);
    }
}
