//! Agents without an app to tell: the project's engine is run once for each task, by a command in the workspace.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::catalog::{Catalog, CatalogDirs};
use fleet_mcp::app::logs::ShowLog;
use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::hosting::{Hosting, Isolation};
use fleet_mcp::domain::log::LogKind;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::{Escalation, TaskMove, TaskState, Verified};
use fleet_mcp::engine::commands::{CommandEngines, Templates};
use fleet_mcp::engine::template::Values;

use crate::harness::{
    Crew, LocalSite, RunningFleet, client, eventually, fleet_options, operator, project, script,
};

/// A crew whose project names an app that its workspaces do not have, and this engine.
pub(super) async fn without_an_app(engine: &str) -> Crew {
    let site = LocalSite::new().project(project("setup", None));
    let projects = site.directory.path().join("projects");
    std::fs::create_dir(&projects).unwrap();
    let file =
        format!("name = \"setup\"\ntemplate = \"setup\"\napp_slug = \"none\"\nengine = \"{engine}\"\n");
    std::fs::write(projects.join("setup.toml"), file).unwrap();
    let local = site.start().await;
    let at = (local.url.as_str(), local.token.as_str());
    let running = RunningFleet::start_embedded(Arc::new(tempfile::tempdir().unwrap()), at, projects).await;
    let crew = Crew { running: running.seen().await, local, site };
    crew.agent("one").await;
    crew
}

pub(super) fn commits(crew: &Crew, subject: &str) -> usize {
    let repository = crew.site.workspace("one").join("repo");
    git(&repository, &["log", "--format=%s"]).lines().filter(|line| *line == subject).count()
}

fn git(repository: &Path, arguments: &[&str]) -> String {
    let told = Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    String::from_utf8_lossy(&told.stdout).trim().to_owned()
}

fn attention(crew: &Crew) -> Attention {
    crew.running.fleet.board().now().by_name("one").unwrap().agent.sighting.attention
}

#[tokio::test]
async fn the_engine_does_the_task_and_its_words_are_the_outcome_and_the_log() {
    let crew = without_an_app("demo").await;
    let task = crew.give("one", "commit By exec\nsay did it").await;
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, Some("did it")));
    let moves = crew.running.store.task_moves(&[task]).await.unwrap().remove(&task).unwrap();
    let told: Vec<(TaskState, &str)> =
        moves.iter().map(|TaskMove { state, reason, .. }| (*state, reason.as_str())).collect();
    let expected = [
        (TaskState::Queued, "accepted"),
        (TaskState::Delivering, "being delivered to the agent"),
        (TaskState::Working, "delivered to the agent (exec)"),
        (TaskState::Done, "did it"),
    ];
    assert_eq!(told, expected);
    assert_eq!(crew.delivered("one"), ["say ready"], "the app got no other task");
    assert_eq!(commits(&crew, "By exec"), 1);
    let page = PageRequest::parse(1, 2).unwrap();
    let log =
        crew.running.fleet.agent_log(&operator(), ShowLog { name: "one".to_owned(), page }).await.unwrap();
    let lines: Vec<(LogKind, String)> =
        log.page.items.into_iter().map(|line| (line.kind, line.content)).collect();
    assert_eq!(lines[1], (LogKind::Input, "commit By exec\nsay did it".to_owned()));
    assert_eq!((lines[0].0, lines[0].1.ends_with("did it")), (LogKind::Output, true), "{lines:?}");
    crew.rests("one").await;
}

#[tokio::test]
async fn failures_and_questions_are_told_apart() {
    let crew = without_an_app("demo").await;
    let failed = crew.give("one", "fail no luck").await;
    let failed = crew.ended(failed).await;
    assert_eq!((failed.state(), failed.outcome()), (TaskState::Failed, Some("no luck")));
    crew.rests("one").await;
    let asked = crew.give("one", "ask which one?").await;
    let asked = crew.ended(asked).await;
    let told = (asked.state(), asked.outcome(), asked.needs_answer());
    assert_eq!(told, (TaskState::Done, Some("which one?"), true));
}

#[tokio::test]
async fn evidence_stands_beside_the_claim_and_reading_it_starts_no_program_of_the_repository() {
    let crew = without_an_app("demo").await;
    let repository = crew.site.workspace("one").join("repo");
    let sign = crew.site.directory.path().join("started");
    let program = format!("touch {}; echo", sign.display());
    git(&repository, &["config", "core.fsmonitor", &program]);
    let hook = repository.join(".git/hooks/post-index-change");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    script(&hook, &format!("#!/bin/sh\n{program}\n"));
    let talk = crew.give("one", "say nothing was done").await;
    let talk = crew.ended(talk).await.stage.verified().cloned().unwrap();
    assert_eq!((talk.is_new, talk.is_clean), (Some(false), true));
    crew.rests("one").await;
    std::fs::write(repository.join("left behind"), "").unwrap();
    let work = crew.give("one", "say commit\ncommit Real work").await;
    let seen = crew.ended(work).await.stage.verified().cloned();
    let head = git(&repository, &["-c", "core.fsmonitor=false", "rev-parse", "HEAD"]);
    let expected = Verified { commit: Some(head), is_new: Some(true), is_pushed: false, is_clean: false };
    assert_eq!(seen, Some(expected));
    assert!(!sign.exists(), "git started what the repository names");
}

#[tokio::test]
async fn a_usage_limit_parks_the_agent_and_its_end_runs_the_task_again() {
    let crew = without_an_app("demo").await;
    let task = crew.give("one", "commit Again\nfail usage limit reached, try again in 1 seconds").await;
    eventually("it is parked", async || attention(&crew) == Attention::Parked).await;
    eventually("it was run again", async || commits(&crew, "Again") == 2).await;
    eventually("it is parked again", async || attention(&crew) == Attention::Parked).await;
    crew.cancel("one").await.unwrap();
    let task = crew.ended(task).await;
    assert_eq!((task.state(), task.work.attempt >= 2), (TaskState::Canceled, true));
    crew.rests("one").await;
    let open = crew.give("one", "fail usage limit reached").await;
    let open = crew.ended(open).await;
    let expected = (TaskState::Failed, Some("usage limit reached"));
    assert_eq!((open.state(), open.outcome()), expected);
}

#[tokio::test]
async fn a_cancel_ends_the_run_with_all_its_processes() {
    let crew = without_an_app("demo").await;
    let task = crew.give("one", "sleep 600").await;
    crew.works("one").await;
    eventually("the engine runs", async || crew.site.engines().len() == 1).await;
    let canceled = crew.cancel("one").await.unwrap();
    let told = (canceled.task.map(|task| task.state()), canceled.status, canceled.reached);
    assert_eq!(told, (Some(TaskState::Canceled), AgentStatus::Idle, Escalation::Signals));
    assert_eq!(crew.ended(task).await.state(), TaskState::Canceled);
    assert_eq!(crew.site.engines(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_restart_of_the_control_plane_begins_nothing_twice() {
    let crew = without_an_app("demo").await;
    let task = crew.give("one", "sleep 1\ncommit Once").await;
    let Crew { mut running, local, site } = crew;
    for _ in 0..3 {
        let directory = running.stop().await;
        let at = (local.url.as_str(), local.token.as_str());
        running = RunningFleet::start_embedded(directory, at, site.directory.path().join("projects"))
            .await
            .seen()
            .await;
    }
    let crew = Crew { running, local, site };
    assert_eq!(crew.ended(task).await.state(), TaskState::Done);
    assert_eq!(commits(&crew, "Once"), 1);
}

#[tokio::test]
async fn an_engine_that_cannot_be_started_there_is_the_tasks_failure() {
    let crew = without_an_app("custom").await;
    let task = crew.give("one", "say nothing").await;
    let ended = crew.ended(task).await;
    let outcome = "agent 'one' has no engine: set RUN_TEMPLATE_PATH to call the engine 'custom'";
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Failed, Some(outcome)));
    crew.rests("one").await;
}

/// A template is needed to call its engine, not to read its output.
#[tokio::test]
async fn a_run_whose_template_was_removed_meanwhile_is_read_and_its_usage_is_unknown() {
    let Crew { running, local, site } = without_an_app("custom").await;
    let (projects, at) = (site.directory.path().join("projects"), (local.url.as_str(), local.token.as_str()));
    let run = "sh\n-c\ntouch began; until [ -e go ]; do sleep 0.1; done; echo finished";
    let mut options = FleetOptions { hosting: Hosting::Embedded(Isolation::Enforced), ..fleet_options() };
    options.engine.commands =
        CommandEngines::new(Some(Templates { run, create_chat: None }), &Values::new()).unwrap();
    let catalog = Catalog::open(CatalogDirs { projects: vec![projects.clone()], ..CatalogDirs::default() });
    let running = RunningFleet::open(running.stop().await, client(at.0, at.1), options, catalog).await;
    let crew = Crew { running: running.seen().await, local, site };
    let task = crew.give("one", "say nothing").await;
    let repository = crew.site.workspace("one").join("repo");
    eventually("the engine runs", async || repository.join("began").exists()).await;

    let Crew { running, local, site } = crew;
    let at = (local.url.as_str(), local.token.as_str());
    let running = RunningFleet::start_embedded(running.stop().await, at, projects).await.seen().await;
    std::fs::write(repository.join("go"), "").unwrap();
    let crew = Crew { running, local, site };
    let ended = crew.ended(task).await;
    assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, Some("finished")));
    let usage = crew.running.store.usage_of(ended.entry.agent_id).await.unwrap();
    assert_eq!(usage.all.unknown_runs, 1);
}
