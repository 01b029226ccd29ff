//! Runs one member: starts it once, follows it, records its end.

use chrono::Utc;
use tokio::sync::watch;
use tokio::time::Instant;

use super::begin::MemberStartError;
use crate::app::Fleet;
use crate::app::engine_runs::EngineReport;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::domain::id::TaskId;
use crate::domain::run::{CancelCause, Run};
use crate::domain::squad::{Chat, Member, MemberEnd, MemberStatus, Squad};
use crate::domain::task::{EndState, Task};
use crate::domain::text::{cut, tail};

/// The longest outcome in the history.
const LONGEST_OUTCOME: usize = 2_000;

impl Fleet {
    pub(super) async fn member_work(&self, squad: &Squad, mut member: Member) -> Result<(), Error> {
        if member.is_ended() {
            return Ok(());
        }
        let mut silent_since = None;
        let end = loop {
            if let Some(run) = self.member_run(&member).await?
                && let Some(end) = self.member_follow(member.id, run).await?
            {
                break end;
            }
            match self.member_begin(squad, &mut member).await {
                Ok(()) => silent_since = None,
                Err(MemberStartError::Ended(end)) => break end,
                Err(MemberStartError::Unresponsive(reason)) => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.limits().member_silence {
                        break MemberEnd::error(reason);
                    }
                    tokio::time::sleep(self.limits().member_retry).await;
                }
                Err(MemberStartError::Failed(error)) => return Err(error),
            }
        };
        self.member_finish(squad, &member, end).await
    }

    /// The member's run, if it was accepted before.
    async fn member_run(&self, member: &Member) -> Result<Option<Run>, Error> {
        match &member.run {
            Some(run) => Ok(self.store().run_by_id(run.id).await?),
            None => Ok(None),
        }
    }

    /// The end of the run; none if it never started. A cancel requested before the run existed is sent here, a later
    /// one by the cancel itself.
    async fn member_follow(&self, task: TaskId, run: Run) -> Result<Option<MemberEnd>, Error> {
        if self.member_is_canceled(task).await? {
            self.run_cancel(run.id, CancelCause::Request).await?;
        }
        loop {
            // Subscribe before the read, so that no end is missed in between.
            let progress = self.0.runs.watch(&run);
            let now = self.run_show(run.id).await?;
            if now.is_ended() {
                self.0.runs.forget(run.id);
                return Ok(MemberEnd::of(&now.state));
            }
            ended(progress).await;
        }
    }

    /// Whether the member's task was canceled.
    pub(super) async fn member_is_canceled(&self, task: TaskId) -> Result<bool, Error> {
        let task = self.store().task_by_id(task).await?;
        Ok(task.is_none_or(|task| task.work.cancel.is_some() || task.state().is_ended()))
    }

    /// The history comes first: an ended member is not processed again.
    async fn member_finish(&self, squad: &Squad, member: &Member, end: MemberEnd) -> Result<(), Error> {
        point("member.ending");
        let run = self.member_run(member).await?;
        let report = self.member_report(run.as_ref()).await?;
        let text = report.as_ref().map(|report| report.text.as_str()).unwrap_or_default();
        self.member_task_end(member, &end, text).await?;
        point("member.noted");
        let chat = chat_of(squad, member, report.as_ref());
        let run_has_end = run.is_some_and(|run| MemberEnd::of(&run.state).is_some());
        let refusal = end.reason.as_deref().filter(|_| !run_has_end);
        self.store().member_end(member.id, refusal, chat.as_ref(), Utc::now()).await?;
        point("member.ended");
        self.nudge_squads();
        tracing::info!(
            squad.id = %squad.id, member.id = %member.id, member.status = %end.status,
            "a squad member has ended"
        );
        Ok(())
    }

    /// None for a run that never started.
    async fn member_report(&self, run: Option<&Run>) -> Result<Option<EngineReport>, Error> {
        let Some(run) = run else { return Ok(None) };
        match run.state.end().filter(|end| !end.never_began()) {
            Some(end) => Ok(Some(self.engine_run_report(run, end).await?)),
            None => Ok(None),
        }
    }

    async fn member_task_end(&self, member: &Member, end: &MemberEnd, text: &str) -> Result<(), Error> {
        let Some(mut task) = self.store().task_by_id(member.id).await? else { return Ok(()) };
        let state = state_of(&task, end.status);
        task.end_run(state, outcome(end, text));
        let reason = end.reason.as_deref().unwrap_or("its process has ended");
        self.store().task_save(&task, &[(state.into(), reason)], Utc::now()).await?;
        self.tasks_publish(task.entry.agent_id).await
    }
}

/// Why the member is not completed, and the end of its text.
fn outcome(end: &MemberEnd, text: &str) -> Option<String> {
    let reason = end.reason.as_deref().filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| cut(reason, LONGEST_OUTCOME) + "\n").unwrap_or_default();
    let left = LONGEST_OUTCOME.saturating_sub(reason.len());
    let outcome = reason + tail(text.trim(), left);
    Some(outcome.trim_end().to_owned()).filter(|outcome| !outcome.is_empty())
}

/// The member's conversation. Its engine may have stored it from the start, even without output; only a run that
/// never started leaves none.
fn chat_of(squad: &Squad, member: &Member, report: Option<&EngineReport>) -> Option<Chat> {
    let (Some(_), Some(agent), Some(engine)) = (&member.chat, member.agent, member.engine) else {
        return None;
    };
    let id = report?.conversation.clone()?;
    Some(Chat { id, principal: squad.principal.clone(), agent, engine, used_at: Utc::now() })
}

/// Returns when the run has ended or is not followed for now.
async fn ended(mut progress: watch::Receiver<Run>) {
    let _ended = progress.wait_for(Run::is_ended).await;
}

/// A canceled member is canceled in the history, whatever the result of its process.
fn state_of(task: &Task, status: MemberStatus) -> EndState {
    match status {
        MemberStatus::Completed => EndState::Done,
        MemberStatus::Timeout => EndState::TimedOut,
        MemberStatus::Waiting | MemberStatus::Running | MemberStatus::Error => {
            if task.work.cancel.is_some() {
                EndState::Canceled
            } else {
                EndState::Failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_has_the_reason_and_the_end_of_a_long_text() {
        let text = format!("{}é the end\n", "x".repeat(3_000));
        let failed = outcome(&MemberEnd::error("exit code 1".to_owned()), &text).unwrap();
        assert!(failed.starts_with("exit code 1\nx") && failed.ends_with("xé the end"), "{failed}");
        assert_eq!(failed.len(), LONGEST_OUTCOME);
        assert_eq!(outcome(&MemberEnd::error(String::new()), " \n"), None);
    }
}
