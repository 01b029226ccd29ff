//! Runners that are killed: the agent is started again, what ran is ended with its reason, what waits is done.

use std::time::Duration;

use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::task::{TaskState, WhenBusy};

use serde_json::json;

use crate::harness::{Crew, LocalSite, RunningFleet, eventually, is_over, is_ready, kill, operator};

const CUT_SHORT: &str = "the agent's runner ended during the task; it is not run again";

async fn crew() -> Crew {
    let mut site = LocalSite::new();
    site.options.limits.respawn.first = Duration::from_millis(1);
    let crew = Crew::on(site).await;
    crew.agent("one").await;
    crew
}

fn kill_runner(crew: &Crew) {
    kill(crew.site.runner());
}

fn generation(crew: &Crew) -> i64 {
    crew.running.fleet.board().now().by_name("one").unwrap().agent.sighting.generation
}

/// Waits until the agent of this generation rests, alone in its workspace.
async fn is_back(crew: &Crew, wanted: i64) {
    eventually("the agent is back", async || generation(crew) == wanted).await;
    crew.rests("one").await;
    crew.only_the_runner_is_left().await;
}

#[tokio::test]
async fn an_idle_agent_comes_back_and_takes_tasks() {
    let crew = crew().await;
    kill_runner(&crew);
    is_back(&crew, 2).await;
    let task = crew.give("one", "say fine again").await;
    assert_eq!(crew.ended(task).await.state(), TaskState::Done);
}

#[tokio::test]
async fn the_running_task_ends_with_its_reason_and_what_waited_is_done_once() {
    let crew = crew().await;
    let first = crew.give("one", "hang").await;
    crew.works("one").await;
    let second = crew.start("one", "say second", WhenBusy::Queue).await.unwrap().task.id;
    kill_runner(&crew);
    let (first, second) = (crew.ended(first).await, crew.ended(second).await);
    assert_eq!((first.state(), first.outcome()), (TaskState::Failed, Some(CUT_SHORT)));
    assert_eq!((second.state(), second.outcome()), (TaskState::Done, Some("second")));
    is_back(&crew, 2).await;
    assert_eq!(crew.taken("one"), ["say ready", "hang", "say second"]);
}

#[tokio::test]
async fn one_that_keeps_dying_is_failed_with_a_remedy_and_a_start_repairs_it() {
    let crew = crew().await;
    for number in 2..=4 {
        kill_runner(&crew);
        is_back(&crew, number).await;
    }
    kill_runner(&crew);
    crew.running.becomes("one", AgentStatus::Failed).await;
    let overview = crew.running.fleet.fleet_status(&operator()).await.unwrap();
    let notice = &overview.attention[0];
    let reason = "the build failed: the agent's process ended 4 times within 10 minutes, so it is not restarted automatically; read its log, then start the agent";
    let remedy = "Call show_agent for 'one', then start_agent or delete_agent.";
    assert_eq!(
        (notice.attention, notice.reason.as_str(), notice.next_action.as_str()),
        (Attention::Unreachable, reason, remedy)
    );
    crew.running.start_agent("one").await.unwrap();
    is_back(&crew, 6).await;
}

#[tokio::test]
async fn the_task_of_one_that_is_not_started_again_ends_with_its_reason() {
    let crew = crew().await;
    for number in 2..=4 {
        kill_runner(&crew);
        is_back(&crew, number).await;
    }
    let task = crew.give("one", "hang").await;
    crew.works("one").await;
    kill_runner(&crew);
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Failed, Some(CUT_SHORT)));
    crew.running.becomes("one", AgentStatus::Failed).await;
    crew.running.start_agent("one").await.unwrap();
    is_back(&crew, 6).await;
    assert_eq!(crew.taken("one"), ["say ready", "hang"]);
}

/// The fleet sees neither the start nor the end of the runner in between: it is stopped meanwhile.
#[tokio::test]
async fn the_task_of_a_runner_ends_with_its_reason_though_the_next_runner_died_too() {
    let crew = crew().await;
    let task = crew.give("one", "hang").await;
    crew.works("one").await;
    let agent = crew.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
    let workspace = json!(agent.workspace_id.unwrap().0);
    eventually("the create is over", async || crew.running.store.operations_open().await.unwrap().is_empty())
        .await;
    let Crew { running, local, site } = crew;
    let directory = running.stop().await;
    kill(site.runner());
    local.until(&workspace, |now| now.latest_build.build_number == 2 && is_ready(now)).await;
    let checkout = site.workspace("one").join("repo");
    let aside = checkout.with_file_name("aside");
    std::fs::rename(&checkout, &aside).unwrap();
    kill(site.runner());
    local.until(&workspace, |now| now.latest_build.build_number == 3 && is_over(now)).await;
    let running = RunningFleet::start_in(directory, &local.url, &local.token).await;
    let crew = Crew { running, local, site };
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Failed, Some(CUT_SHORT)));
    assert_eq!((crew.running.status("one"), generation(&crew)), (Some(AgentStatus::Failed), 3));
    std::fs::rename(&aside, &checkout).unwrap();
    crew.running.start_agent("one").await.unwrap();
    is_back(&crew, 4).await;
    assert_eq!(crew.taken("one"), ["say ready", "hang"]);
}

#[tokio::test]
async fn a_task_that_a_stop_parked_waits_behind_starts_that_fail() {
    let crew = crew().await;
    let task = crew.give("one", "sleep 1\nsay went on").await;
    crew.works("one").await;
    crew.running.stop_agent("one").await.unwrap();
    crew.running.becomes("one", AgentStatus::Stopped).await;
    let checkout = crew.site.workspace("one").join("repo");
    let aside = checkout.with_file_name("aside");
    std::fs::rename(&checkout, &aside).unwrap();
    for number in [3, 4] {
        crew.running.start_agent("one").await.unwrap();
        eventually("the start fails", async || {
            (crew.running.status("one"), generation(&crew)) == (Some(AgentStatus::Failed), number)
        })
        .await;
    }
    std::fs::rename(&aside, &checkout).unwrap();
    crew.running.start_agent("one").await.unwrap();
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, Some("went on")));
}

#[tokio::test]
async fn a_task_right_behind_an_accepted_start_is_held_for_it() {
    let crew = crew().await;
    crew.running.stop_agent("one").await.unwrap();
    crew.running.becomes("one", AgentStatus::Stopped).await;
    crew.running.start_agent("one").await.unwrap();
    let task = crew.give("one", "say in time").await;
    assert_eq!(crew.ended(task).await.state(), TaskState::Done);
}
