//! The random choice of what a client does next; the same seed gives the same choices.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use super::calls::Call;

/// Few names, so that clients get in each other's way.
pub(super) const NAMES: [&str; 5] = ["ant", "bee", "cat", "dog", "eel"];
const PROJECTS: [&str; 2] = ["here", "setup"];

type Action = fn(&mut StdRng, &str) -> Call;

/// How often each action is chosen, out of the sum.
const WEIGHTS: [(u32, Action); 12] = [
    (22, create),
    (30, give_task),
    (8, cancel),
    (6, |rng, _| on_agent(rng, "start_agent")),
    (6, |rng, _| on_agent(rng, "stop_agent")),
    (6, |rng, _| on_agent(rng, "restart_agent")),
    (8, delete),
    (4, squad),
    (4, metadata),
    (6, wait),
    (8, look),
    (8, invalid_call),
];

/// The next call; `mark` is what the engine run that comes of it writes down.
pub(super) fn choose(rng: &mut StdRng, mark: &str) -> Call {
    let total: u32 = WEIGHTS.iter().map(|(weight, _)| weight).sum();
    let mut left = rng.random_range(0..total);
    for (weight, action) in WEIGHTS {
        if left < weight {
            return action(rng, mark);
        }
        left -= weight;
    }
    look(rng, mark)
}

/// Names are looked up without case.
fn name(rng: &mut StdRng) -> String {
    let name = *NAMES.choose(rng).unwrap();
    if rng.random_bool(0.1) { name.to_uppercase() } else { name.to_owned() }
}

fn seconds(rng: &mut StdRng) -> u64 {
    if rng.random_bool(0.3) { rng.random_range(1..3) } else { 0 }
}

/// What the engine is acknowledged to do. All of it ends by itself but for `hang`, which is given a time limit.
fn script(rng: &mut StdRng, mark: &str) -> String {
    let script = [
        "commit mark-@",
        "say mark-@",
        "say mark-@\nsleep 0.2",
        "sleep 0.5\ncommit mark-@",
        "commit mark-@\nsleep 1",
        "say mark-@\nsleep 2",
        "fail mark-@",
        "say mark-@\nexit 3",
        "fork\nsay mark-@",
        "print 200KB\nsay mark-@",
    ];
    script.choose(rng).unwrap().replace('@', mark)
}

fn create(rng: &mut StdRng, mark: &str) -> Call {
    let arguments = json!({
        "project": PROJECTS.choose(rng), "name": name(rng), "spec": script(rng, mark),
        "request_key": mark, "wait_seconds": seconds(rng),
    });
    Call { tool: "create_agent", arguments }
}

fn give_task(rng: &mut StdRng, mark: &str) -> Call {
    let when_busy = ["reject", "queue", "queue", "interrupt"].choose(rng);
    let mut arguments = json!({
        "agent_name": name(rng), "task_description": script(rng, mark), "when_busy": when_busy,
        "request_key": mark,
    });
    if rng.random_bool(0.1) {
        arguments["task_description"] = json!(format!("say mark-{mark}\nhang"));
        arguments["timeout_seconds"] = json!(2);
    }
    Call { tool: "start_agent_task", arguments }
}

fn cancel(rng: &mut StdRng, _: &str) -> Call {
    let (all, escalate) = (rng.random_bool(0.3), rng.random_bool(0.2));
    let arguments = json!({ "agent_name": name(rng), "all": all, "escalate": escalate });
    Call { tool: "cancel_agent_task", arguments }
}

fn on_agent(rng: &mut StdRng, tool: &'static str) -> Call {
    Call { tool, arguments: json!({ "agent_name": name(rng), "wait_seconds": seconds(rng) }) }
}

fn delete(rng: &mut StdRng, _: &str) -> Call {
    let call = on_agent(rng, "delete_agent");
    let mut arguments = call.arguments;
    arguments["keep_work"] = json!(rng.random_bool(0.5));
    Call { arguments, ..call }
}

fn squad(rng: &mut StdRng, mark: &str) -> Call {
    let mut first = json!({ "roleId": "coder", "task": script(rng, &format!("{mark}-one")) });
    let second = json!({ "roleId": "reviewer", "task": format!("say mark-{mark}-two\nsleep 0.3") });
    if rng.random_bool(0.5) {
        first["agent_name"] = json!(name(rng));
    }
    let arguments = json!({ "members": [first, second], "async": true, "request_key": mark });
    Call { tool: "start_squad_members", arguments }
}

fn metadata(rng: &mut StdRng, mark: &str) -> Call {
    let arguments = json!({ "agent_name": name(rng), "key": "fleet_mcp_note", "value": mark });
    Call { tool: "set_agent_metadata", arguments }
}

fn wait(rng: &mut StdRng, _: &str) -> Call {
    let until = ["any_change", "idle", "done"].choose(rng);
    let arguments = json!({ "agent_names": [name(rng)], "until": until, "timeout_seconds": 1 });
    Call { tool: "wait_for_agents", arguments }
}

fn look(rng: &mut StdRng, _: &str) -> Call {
    match rng.random_range(0..6) {
        0 => Call { tool: "list_agents", arguments: json!({}) },
        1 => Call { tool: "fleet_status", arguments: json!({}) },
        2 => Call { tool: "squad_status", arguments: json!({}) },
        3 => Call { tool: "show_agent", arguments: json!({ "agent_name": name(rng) }) },
        4 => Call { tool: "show_agent_log", arguments: json!({ "agent_name": name(rng) }) },
        _ => Call { tool: "show_agent_task_history", arguments: json!({ "agent_name": name(rng) }) },
    }
}

/// Calls that must be refused.
fn invalid_call(rng: &mut StdRng, _: &str) -> Call {
    let calls: [(&'static str, Value); 7] = [
        ("create_agent", json!({ "project": "here", "spec": "  ", "name": "ant" })),
        ("create_agent", json!({ "project": "nowhere", "spec": "say no", "name": "ant" })),
        ("create_agent", json!({ "project": "setup", "spec": "say no", "name": "-ant-" })),
        ("start_agent_task", json!({ "agent_name": "nobody", "task_description": "say no" })),
        (
            "start_agent_task",
            json!({ "agent_name": "ant", "task_description": "say no", "when_busy": "perhaps" }),
        ),
        ("stop_agent", json!({ "agent_name": "ant", "wait_seconds": 46 })),
        ("set_agent_metadata", json!({ "agent_name": "ant", "key": "mine", "value": "x" })),
    ];
    let (tool, arguments) = calls.choose(rng).unwrap().clone();
    Call { tool, arguments }
}
