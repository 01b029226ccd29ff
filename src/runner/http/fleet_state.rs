//! `GET /fleet/state`: the complete state, for a control plane that missed events.

use axum::Json;
use axum::extract::{Query, State as Shared};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Api, Status};
use crate::engine::Usage;
use crate::runner::budget;
use crate::runner::conversation::{Progress, TaskLookup, Turn};
use crate::runner::entry::{Interruption, Outcome, Source, TaskKey};
use crate::runner::state::State;

/// Incremented only when a field changes its meaning; new fields may be added at any time.
const VERSION: u32 = 1;

#[derive(Debug, Deserialize)]
pub(super) struct TaskQuery {
    /// Selects only this task.
    task: Option<String>,
}

pub(super) async fn show(Shared(api): Shared<Api>, Query(query): Query<TaskQuery>) -> Json<Value> {
    let state = api.state.borrow();
    let mut shown = head(&api, &state);
    let more = match query.task {
        Some(task) => json!({ "task": task_of(&state, task) }),
        None => whole(&api, &state),
    };
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        shown.extend(more);
    }
    Json(shown)
}

fn head(api: &Api, state: &State) -> Value {
    json!({
        "version": VERSION,
        "workspace": api.workspace,
        "engine": api.engine.word().word(),
        "generation": api.generation,
        "status": Status::of(state),
    })
}

fn whole(api: &Api, state: &State) -> Value {
    let conversation = &state.conversation;
    let record = conversation.usage_record();
    let kept = conversation.numbered().map(|(number, turn)| turn_of(number, turn));
    let withdrawn = conversation.withdrawn.iter().map(|(task_id, at)| withdrawn_of(task_id, *at));
    let turns: Vec<Value> = kept.chain(withdrawn).collect();
    let session = conversation.session.as_ref();
    json!({
        "turns": turns,
        "forgotten_turns": conversation.forgotten.n_turns,
        "forgotten_prompt": conversation.forgotten.has_prompt,
        "messages": state.messages(),
        "branch": state.git.as_ref().and_then(|git| git.branch.as_ref()),
        "git": state.git,
        "usage": record,
        "session": session.map(|session| json!({ "engine": session.engine, "id": session.id })),
        "budget": budget(api, &record.usage),
    })
}

fn budget(api: &Api, usage: &Usage) -> Value {
    match budget::read(&api.directory) {
        Ok(budget) => json!({
            "max_cost_usd": budget.max_cost_usd,
            "max_tokens": budget.max_tokens,
            "is_used_up": budget.check(usage).is_err(),
        }),
        Err(error) => json!({ "error": error.to_string(), "is_used_up": true }),
    }
}

/// Null for an unknown task.
fn task_of(state: &State, task: String) -> Value {
    let known = TaskKey::parse(task).map(|task| match state.conversation.task(&task) {
        TaskLookup::Turn(number, turn) => turn_of(number, turn),
        TaskLookup::Forgotten => json!({ "task_id": task, "state": "forgotten" }),
        TaskLookup::Withdrawn(at) => withdrawn_of(&task, at),
        TaskLookup::Never => Value::Null,
    });
    known.unwrap_or_default()
}

/// A withdrawn task is reported like an interrupted one.
fn withdrawn_of(task_id: &TaskKey, at: DateTime<Utc>) -> Value {
    let outcome = Outcome::Interrupted { by: Interruption::Request };
    json!({
        "task_id": task_id,
        "source": Source::User,
        "accepted_at": at,
        "state": "ended",
        "ended_at": at,
        "outcome": outcome,
    })
}

fn turn_of(number: usize, turn: &Turn) -> Value {
    let mut shown = json!({
        "message_id": 2 * number,
        "task_id": turn.task_id,
        "source": turn.source,
        "accepted_at": turn.accepted_at,
    });
    let progress = match &turn.progress {
        Progress::Queued => json!({ "state": "queued" }),
        Progress::Working { run, generation, since, usage, .. } => json!({
            "state": "working",
            "run_id": run.0,
            "generation": generation,
            "started_at": since,
            "usage": usage,
        }),
        Progress::Ended { since, at, outcome, usage, .. } => {
            json!({ "state": "ended", "started_at": since, "ended_at": at, "outcome": outcome, "usage": usage })
        }
    };
    if let (Some(shown), Value::Object(progress)) = (shown.as_object_mut(), progress) {
        shown.extend(progress);
    }
    shown
}
