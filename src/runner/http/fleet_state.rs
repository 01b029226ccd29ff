//! `GET /fleet/state`: everything the runner knows, for a control plane that missed events.

use axum::Json;
use axum::extract::State as Shared;
use serde_json::{Value, json};

use super::{Api, Status};
use crate::runner::conversation::{Progress, Turn};

pub(super) async fn show(Shared(api): Shared<Api>) -> Json<Value> {
    let state = api.state.borrow();
    let turns: Vec<Value> = state.conversation.turns.iter().enumerate().map(turn).collect();
    Json(json!({
        "workspace": api.workspace,
        "engine": api.engine,
        "generation": api.generation,
        "status": Status::of(&state),
        "turns": turns,
        "messages": state.messages(),
        "branch": state.git.as_ref().and_then(|git| git.branch.as_ref()),
        "git": state.git,
        "usage": state.conversation.usage(),
    }))
}

fn turn((number, turn): (usize, &Turn)) -> Value {
    let mut shown = json!({
        "message_id": 2 * number,
        "task_id": turn.task_id,
        "source": turn.source,
        "accepted_at": turn.accepted_at,
    });
    let progress = match &turn.progress {
        Progress::Queued => json!({ "state": "queued" }),
        Progress::Working { run, generation, since, .. } => {
            json!({ "state": "working", "run_id": run.0, "generation": generation, "started_at": since })
        }
        Progress::Ended { since, at, outcome, usage, .. } => {
            json!({ "state": "ended", "started_at": since, "ended_at": at, "outcome": outcome, "usage": usage })
        }
    };
    if let (Some(shown), Value::Object(progress)) = (shown.as_object_mut(), progress) {
        shown.extend(progress);
    }
    shown
}
