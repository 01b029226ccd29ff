//! How tasks end: complete, failure, question, usage limit; what is claimed and what can be verified.

use chrono::{TimeDelta, Utc};
use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::tasks::StartTask;
use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::task::{TaskStage, TaskState, Verified, WhenBusy, Work};
use fleet_mcp::store::{Store, StoreOptions};

use crate::harness::{Crew, RunningFleet, client, eventually, fleet_options, operator};

fn attention(crew: &Crew, name: &str) -> (AgentStatus, Attention, String) {
    let snapshot = crew.running.fleet.board().now();
    let sighting = &snapshot.by_name(name).unwrap().agent.sighting;
    (sighting.status, sighting.attention, sighting.reason.clone())
}

/// Gives a task that may not work longer than this.
async fn limited(crew: &Crew, task: &str, timeout: TimeDelta) -> TaskId {
    let request = StartTask {
        name: "one".to_owned(),
        description: task.to_owned(),
        when_busy: WhenBusy::Reject,
        timeout: Some(timeout),
        request: None,
    };
    crew.running.fleet.task_start(&operator(), request).await.unwrap().task.id
}

#[tokio::test]
async fn a_failed_task_asks_for_attention_until_the_next_one() {
    let crew = Crew::with("one").await;
    let failed = crew.give("one", "fail no space left").await;
    let failed = crew.ended(failed).await;
    assert_eq!((failed.state(), failed.outcome()), (TaskState::Failed, Some("no space left")));
    crew.rests("one").await;
    let told = (AgentStatus::Idle, Attention::FailedTask, "no space left".to_owned());
    eventually("its failure is told", async || attention(&crew, "one") == told).await;
    let next = crew.give("one", "say better").await;
    crew.ended(next).await;
    eventually("all is well", async || attention(&crew, "one").1 == Attention::None).await;
}

#[tokio::test]
async fn a_question_ends_the_task_and_the_answer_is_the_next_one() {
    let crew = Crew::with("one").await;
    let asked = crew.give("one", "ask which branch?").await;
    let asked = crew.ended(asked).await;
    assert_eq!(
        (asked.state(), asked.outcome(), asked.needs_answer()),
        (TaskState::Done, Some("which branch?"), true)
    );
    let told = (AgentStatus::Idle, Attention::NeedsInput, "ended with a question: which branch?".to_owned());
    eventually("the question is told", async || attention(&crew, "one") == told).await;
    let answer = crew.give("one", "say main it is").await;
    crew.ended(answer).await;
    eventually("nothing is asked any more", async || attention(&crew, "one").1 == Attention::None).await;
}

#[tokio::test]
async fn a_usage_limit_parks_the_agent_and_its_end_resumes_the_task() {
    let crew = Crew::with("one").await;
    let task = crew.give("one", "fail usage limit reached, try again in 3 seconds").await;
    eventually("it is parked", async || attention(&crew, "one").1 == Attention::Parked).await;
    assert_eq!(attention(&crew, "one").0, AgentStatus::Busy);
    eventually("it is told again", async || crew.taken("one").len() == 3).await;
    eventually("it is parked again", async || attention(&crew, "one").1 == Attention::Parked).await;
    let parked = crew.running.store.task_by_id(task).await.unwrap().unwrap();
    assert_eq!((parked.state(), parked.work.attempt), (TaskState::Working, 2));
    crew.cancel("one").await.unwrap();
    assert_eq!(crew.ended(task).await.state(), TaskState::Canceled);
    assert_eq!(crew.taken("one").len(), 3, "a canceled task is not told again");
}

#[tokio::test]
async fn a_usage_limit_without_a_time_is_a_failure_with_its_text() {
    let crew = Crew::with("one").await;
    let task = crew.give("one", "fail usage limit reached").await;
    let task = crew.ended(task).await;
    let expected = (TaskState::Failed, Some("usage limit reached"));
    assert_eq!((task.state(), task.outcome()), expected);
}

#[tokio::test]
async fn evidence_stands_beside_the_claim() {
    let crew = Crew::with("one").await;
    let talk = crew.give("one", "say nothing was done").await;
    let talk = crew.ended(talk).await.stage.verified().cloned().unwrap();
    assert_eq!((talk.is_new, talk.is_clean), (Some(false), true));
    crew.rests("one").await;
    let work = crew.give("one", "commit Real work").await;
    let seen = crew.ended(work).await.stage.verified().cloned().unwrap();
    let head = seen.commit.clone().unwrap();
    assert_eq!(
        seen,
        Verified { commit: Some(head.clone()), is_new: Some(true), is_pushed: false, is_clean: true }
    );
    let repository = crew.site.workspace("one").join("repo");
    let told =
        std::process::Command::new("git").arg("-C").arg(repository).args(["rev-parse", "HEAD"]).output();
    assert_eq!(String::from_utf8_lossy(&told.unwrap().stdout).trim(), head);
}

#[tokio::test]
async fn a_task_that_takes_longer_than_it_was_given_is_ended() {
    let crew = Crew::with("one").await;
    let task = limited(&crew, "sleep 600", TimeDelta::seconds(1)).await;
    let task = crew.ended(task).await;
    let expected = (TaskState::TimedOut, Some("it exceeded its timeout"));
    assert_eq!((task.state(), task.outcome()), expected);
    assert!(task.working_since().is_some_and(|since| since < Utc::now()));
    crew.rests("one").await;
    assert_eq!(attention(&crew, "one").1, Attention::FailedTask);
}

#[tokio::test]
async fn a_task_without_a_sign_of_life_is_stuck_and_still_busy() {
    let Crew { running, local, site } = Crew::with("one").await;
    let directory = running.stop().await;
    let options = FleetOptions { stuck_after: TimeDelta::seconds(2), ..fleet_options() };
    let client = client(&local.url, &local.token);
    let running = RunningFleet::start_with(directory, client, options).await.seen().await;
    let crew = Crew { running, local, site };
    crew.rests("one").await;
    let task = crew.give("one", "sleep 600").await;
    crew.works("one").await;
    let stuck = (AgentStatus::Busy, Attention::Stuck, "no activity for 0 min".to_owned());
    eventually("it is stuck", async || attention(&crew, "one") == stuck).await;
    crew.cancel("one").await.unwrap();
    assert_eq!(crew.ended(task).await.state(), TaskState::Canceled);
}

#[tokio::test]
async fn a_task_that_was_done_in_time_while_we_were_away_is_done_however_late_we_come_back() {
    let crew = Crew::with("one").await;
    let id = limited(&crew, "sleep 1\nsay in time", TimeDelta::seconds(60)).await;
    crew.works("one").await;
    let Crew { running, local, site } = crew;
    let directory = running.stop().await;
    let journal = site.workspace("one").join("fleet/journal.jsonl");
    eventually("the agent has finished it", async || {
        std::fs::read_to_string(&journal).unwrap().matches(r#""entry":"ended""#).count() == 2
    })
    .await;
    let paths =
        StoreOptions { path: directory.path().join("fleet.db"), backups: directory.path().join("backups") };
    let store = Store::open(&paths).await.unwrap();
    let mut task = store.task_by_id(id).await.unwrap().unwrap();
    let since = Some(Utc::now() - TimeDelta::hours(1));
    task.stage = TaskStage::Working(Work { since, ..task.stage.work() });
    assert!(store.task_save(&task, &[], Utc::now()).await.unwrap());
    store.close().await;
    let running = RunningFleet::start_in(directory, &local.url, &local.token).await.seen().await;
    let crew = Crew { running, local, site };
    let task = crew.ended(id).await;
    assert_eq!((task.state(), task.outcome()), (TaskState::Done, Some("in time")));
}
