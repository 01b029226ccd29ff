//! What one agent's row says of its tasks.

use chrono::TimeDelta;

use super::*;
use crate::domain::agent::{Attention, Sighting};
use crate::domain::history::HistoryLine;
use crate::domain::id::TaskId;
use crate::domain::name::AgentName;
use crate::domain::task::{Task, TaskOrigin, TaskProgress, TaskSource, TaskStage, TaskWork, Work};

pub(in crate::app) fn agent(now: DateTime<Utc>) -> Agent {
    Agent {
        id: AgentId::fresh(),
        name: AgentName::parse("one").unwrap(),
        workspace_id: None,
        project: "setup".to_owned(),
        role: "coder".to_owned(),
        spec: String::new(),
        pull_request_url: None,
        directory: None,
        created_by: None,
        created_at: now,
        updated_at: now,
        deleted_at: None,
        sighting: Sighting {
            status: AgentStatus::Busy,
            previous_status: None,
            reason: String::new(),
            attention: Attention::None,
            generation: 1,
            observed_at: None,
            revision: 1,
        },
    }
}

fn task(agent: &Agent, state: TaskState, last_sign: DateTime<Utc>) -> Task {
    let entry = HistoryLine {
        agent_id: agent.id,
        message: format!("a {state} task"),
        source: TaskSource::Human,
        generation: 1,
        created_at: last_sign,
    };
    let progress = TaskProgress::of(state, None, false).unwrap();
    let stage = TaskStage::of(progress, Work::NONE, None).unwrap();
    let work = TaskWork { last_sign: Some(last_sign), ..TaskWork::fresh(TaskOrigin::Given) };
    Task { id: TaskId::fresh(), entry, stage, work }
}

#[test]
fn a_report_of_work_counts_until_the_task_it_was_about_has_ended() {
    let ended_at = Utc::now();
    let agent = agent(ended_at);
    let current = |reported_after: TimeDelta, open: Option<TaskState>| {
        let tasks = LatestTasks {
            last: Some(task(&agent, TaskState::Done, ended_at)),
            open: open.map(|state| task(&agent, state, ended_at)),
            ..LatestTasks::default()
        };
        let mut state = AgentState::new(agent.clone(), RoleKind::Coding, tasks, Metadata::new());
        let reported = ReportedWork { text: "reported".to_owned(), at: ended_at + reported_after };
        state.live.working_on = Some(reported);
        state.current_task().map(str::to_owned)
    };
    let (before, after) = (TimeDelta::seconds(-1), TimeDelta::seconds(1));
    assert_eq!([current(before, None), current(before, Some(TaskState::Queued))], [None, None]);
    assert_eq!(current(after, None).as_deref(), Some("reported"));
    assert_eq!(current(after, Some(TaskState::Working)).as_deref(), Some("a working task"));
}

#[test]
fn what_was_read_from_the_store_overwrites_nothing_that_was_shown_since() {
    let row = agent(Utc::now());
    let state = |version: i64, revision: i64| {
        let mut agent = row.clone();
        agent.sighting.revision = revision;
        let tasks = LatestTasks { version, ..LatestTasks::default() };
        AgentState::new(agent, RoleKind::Coding, tasks, Metadata::new())
    };
    let kept = |mut fresh: AgentState, known: AgentState| {
        fresh.keep_newer(&known);
        (fresh.tasks.version, fresh.agent.sighting.revision)
    };
    assert_eq!(kept(state(1, 4), state(2, 5)), (2, 5));
    assert_eq!(kept(state(2, 5), state(1, 4)), (2, 5));
}

#[test]
fn only_the_workspace_says_how_an_agent_started() {
    let now = Utc::now();
    let forged =
        Metadata::from([(START_NOTE.to_owned(), Dated { value: "forged".to_owned(), changed_at: now })]);
    let mut state = AgentState::new(agent(now), RoleKind::Coding, LatestTasks::default(), forged.clone());
    state.live.metadata = forged;
    state.merge_metadata();
    assert_eq!(state.metadata_value(START_NOTE), None);
    state.live.start_note = Some("said".to_owned());
    state.merge_metadata();
    assert_eq!(state.metadata_value(START_NOTE), Some("said".to_owned()));
}
