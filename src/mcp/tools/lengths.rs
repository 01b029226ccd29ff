//! The plan of each answer: which parts may be long, and which are removed first.

use crate::mcp::fit::{ANSWER, Fit, LIST, Plan, Rest};
use crate::view::agent::{AgentChanged, AgentDeleted, AgentList, AgentShown, AgentsWaited, MetadataSet};
use crate::view::catalog::{AgentProjects, AgentRoles};
use crate::view::fleet::FleetStatus;
use crate::view::history::TaskHistory;
use crate::view::log::LogPage;
use crate::view::operation::{OperationCanceled, OperationList};
use crate::view::shorten::Step;
use crate::view::squad::{OUTPUTS, SquadResult, SquadRoles, SquadStatus};
use crate::view::task::{CanceledTask, ReportedStatus, StartedTask};

/// The length of a text that the answer has whole elsewhere.
const REPEAT_CHARS: usize = 120;
/// Longer addresses and values are removed from lists.
const LISTED_VALUE_CHARS: usize = 200;
const MAX_NOTICES: usize = 80;
const MAX_METADATA: usize = 100;
/// Longer metadata of the caller is removed from a shortened answer.
const METADATA_CHARS: usize = 2_000;

/// The plan of an answer with rows of agents at this path. Tasks are removed first, then the state of the pull
/// request, and its address last, as the main information of the list.
macro_rules! rows {
    ($base:expr, $row:literal) => {
        Plan {
            texts: &[
                concat!($row, ".reason"),
                concat!($row, ".current_task"),
                concat!($row, ".start_note"),
                concat!($row, ".last_task.message"),
                concat!($row, ".last_task.outcome"),
            ],
            extras: &[
                &[Step::remove(concat!($row, ".last_task"))],
                &[
                    Step::remove(concat!($row, ".pull_request_status")),
                    Step::remove(concat!($row, ".pull_request_check_status")),
                ],
                &[
                    Step::remove(concat!($row, ".current_task")),
                    Step::remove(concat!($row, ".start_note")),
                    Step::remove(concat!($row, ".directory")),
                    Step::remove(concat!($row, ".pull_request_url")).if_over(LISTED_VALUE_CHARS),
                ],
            ],
            ..$base
        }
    };
}

impl Fit for AgentShown {
    const PLAN: Plan = Plan {
        // The spec stays; the metadata with the same text is shortened.
        repeats: &[
            Step::excerpt("agent.metadata.fleet_mcp_agent_spec", REPEAT_CHARS),
            Step::null("agent.git").if_over(LISTED_VALUE_CHARS),
        ],
        texts: &[
            "agent.reason",
            "agent.spec",
            "agent.current_task",
            "agent.last_task.message",
            "agent.last_task.outcome",
            "agent.metadata.*",
        ],
        extras: &[&[
            Step::first("agent.metadata", MAX_METADATA),
            Step::null("agent.links.pull_request").if_over(LISTED_VALUE_CHARS),
        ]],
        rest: Rest::SameTool,
        ..ANSWER
    };
}

impl Fit for AgentChanged {
    const PLAN: Plan = Plan { rest: Rest::ShowAgent("/agent/name"), ..rows!(ANSWER, "agent") };
}

impl Fit for AgentDeleted {
    const PLAN: Plan = Plan { texts: &["message"], ..ANSWER };
}

impl Fit for MetadataSet {
    const PLAN: Plan = Plan {
        texts: &["metadata.*"],
        extras: &[&[Step::first("metadata", MAX_METADATA)]],
        rest: Rest::ShowAgent("/agent_name"),
        ..ANSWER
    };
}

impl Fit for AgentList {
    const PLAN: Plan = rows!(LIST, "agents.*");
}

impl Fit for AgentsWaited {
    const PLAN: Plan = rows!(LIST, "changed.*");
}

impl Fit for TaskHistory {
    const PLAN: Plan = Plan {
        // The outcome has the reason for the state.
        repeats: &[Step::remove("tasks.*.states")],
        texts: &["tasks.*.message", "tasks.*.outcome"],
        extras: &[&[Step::null("tasks.*.uri").if_over(LISTED_VALUE_CHARS)]],
        rest: Rest::SameTool,
        ..LIST
    };
}

impl Fit for OperationList {
    const PLAN: Plan = Plan { texts: &["operations.*.message"], ..LIST };
}

impl Fit for OperationCanceled {
    const PLAN: Plan = Plan {
        texts: &["operation.message", "message"],
        rest: Rest::ShowAgent("/operation/agent_name"),
        ..ANSWER
    };
}

impl Fit for SquadRoles {
    const PLAN: Plan = Plan { texts: &["roles.*.description", "problems.*"], ..LIST };
}

/// The reason of a failure is also in the output of a member without a run; other output can be read by pages.
const MEMBERS: Plan = Plan {
    pages: &OUTPUTS,
    // The caller has the metadata already.
    repeats: &[Step::remove("metadata").if_over(METADATA_CHARS)],
    texts: &["members.*.cwd", "members.*.reason"],
    extras: &[MEMBERS_FIRST, MEMBERS_THEN, MEMBERS_LAST],
    ..ANSWER
};
const MEMBERS_FIRST: &[Step] = &[Step::remove("members.*.reason")];
const MEMBERS_THEN: &[Step] = &[Step::drop_page(OUTPUTS[0]), Step::drop_page(OUTPUTS[1])];
const MEMBERS_LAST: &[Step] =
    &[Step::clear("members.*.cwd"), Step::remove("members.*.chatId").if_over(LISTED_VALUE_CHARS)];

impl Fit for SquadResult {
    const PLAN: Plan = MEMBERS;
}

impl Fit for SquadStatus {
    /// An answer has members of one squad or the overview, so each round affects only one of them.
    const PLAN: Plan = Plan {
        texts: &[
            "active_agents.*.current_task",
            "pending_tasks.*.message",
            "members.*.cwd",
            "members.*.reason",
        ],
        extras: &[
            MEMBERS_FIRST,
            MEMBERS_THEN,
            MEMBERS_LAST,
            &[
                Step::clear("squads.*.done?.members"),
                Step::first("pending_tasks", MAX_NOTICES),
                Step::first("active_agents", MAX_NOTICES),
            ],
            &[
                Step::clear("squads.*.members"),
                Step::first("pending_tasks", MAX_NOTICES / 2),
                Step::first("active_agents", MAX_NOTICES / 2),
            ],
            &[Step::first("pending_tasks", MAX_NOTICES / 4), Step::first("active_agents", MAX_NOTICES / 4)],
        ],
        ..MEMBERS
    };
}

impl Fit for LogPage {
    const PLAN: Plan = Plan { texts: &["logs.*.content"], rest: Rest::SameTool, ..LIST };
}

impl Fit for StartedTask {
    const PLAN: Plan = Plan { texts: &["task.message", "task.outcome", "task_description"], ..ANSWER };
}

impl Fit for CanceledTask {
    const PLAN: Plan = Plan { texts: &["task.message", "task.outcome"], ..ANSWER };
}

impl Fit for ReportedStatus {
    const PLAN: Plan = Plan { texts: &["message"], ..ANSWER };
}

impl Fit for AgentRoles {
    const PLAN: Plan = Plan { texts: &["roles.*.description"], ..LIST };
}

impl Fit for AgentProjects {
    const PLAN: Plan = Plan { texts: &["projects.*.description", "problems.*"], ..LIST };
}

impl Fit for FleetStatus {
    const PLAN: Plan = Plan {
        texts: &["attention.*.reason", "coder.error"],
        extras: &[&[Step::first("attention", MAX_NOTICES)]],
        ..ANSWER
    };
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::mcp::fit::ANSWER_CHARS;
    use crate::mcp::tools::TOOLS;
    use crate::view::squad::{ActiveAgent, MemberSummary, PendingTask, SquadSummary};

    const FROM_THE_BEGINNING: usize = 0;
    const N_ENTRIES: usize = 3;

    /// The part of a schema under one key, or under `*`.
    fn inner<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
        let whole = schema.get("anyOf").map_or(schema, |any| &any[0]);
        match key {
            "*" => whole.get("items").or_else(|| whole.get("additionalProperties")),
            key => whole["properties"].get(key).or_else(|| whole.get("additionalProperties")),
        }
    }

    fn is_in_schema(schema: &Value, path: &str) -> bool {
        let found = path.split('.').try_fold(schema, |schema, key| match key.strip_suffix('?') {
            Some(guard) => inner(schema, guard).map(|_| schema),
            None => inner(schema, key),
        });
        found.is_some()
    }

    #[test]
    fn what_is_shortened_of_an_answer_is_in_its_schema() {
        for (_, entry) in TOOLS.iter() {
            let schema = Value::Object((**entry.tool.output_schema.as_ref().unwrap()).clone());
            let steps = entry.plan.repeats.iter().chain(entry.plan.extras.iter().copied().flatten());
            let paths = entry.plan.pages.iter().chain(entry.plan.texts).copied().chain(steps.map(Step::path));
            let unknown: Vec<&str> = paths.filter(|path| !is_in_schema(&schema, path)).collect();
            assert_eq!(unknown, [""; 0], "{}", entry.tool.name);
        }
    }

    /// An answer with all fields of the schema, each text far too long.
    fn fullest(schema: &Value) -> Value {
        if let Some(any) = schema.get("anyOf") {
            return fullest(&any[0]);
        }
        let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
        match kind {
            Some("string") => json!("long text ".repeat(2_000)),
            Some("array") => json!(vec![fullest(&schema["items"]); N_ENTRIES]),
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(true),
            Some("null") => Value::Null,
            _ => {
                let fields = schema["properties"].as_object().into_iter().flatten();
                let mut object: Map<_, _> =
                    fields.map(|(key, inner)| (key.clone(), fullest(inner))).collect();
                let more = schema.get("additionalProperties").filter(|more| more.is_object());
                object.extend(more.map(|inner| ("key".to_owned(), fullest(inner))));
                Value::Object(object)
            }
        }
    }

    /// Removed fields are optional, and fields set to null are nullable.
    #[test]
    fn an_answer_that_was_shortened_as_far_as_can_be_keeps_to_its_schema() {
        for (_, entry) in TOOLS.iter() {
            let schema = Value::Object((**entry.tool.output_schema.as_ref().unwrap()).clone());
            let mut answer = fullest(&schema);
            answer.as_object_mut().unwrap().retain(|key, _| !["truncated", "next"].contains(&key.as_str()));
            let fitted = entry.plan.fitted(answer, Map::new(), FROM_THE_BEGINNING);
            assert_eq!(fitted["truncated"], true, "{}", entry.tool.name);
            let errors = jsonschema::validator_for(&schema).unwrap();
            let errors: Vec<String> = errors.iter_errors(&fitted).map(|error| error.to_string()).collect();
            assert_eq!(errors, [""; 0], "{}", entry.tool.name);
        }
    }

    #[test]
    fn the_fullest_overview_of_squads_fits_and_names_every_squad() {
        let id = "019d0000-0000-7000-8000-000000000000".to_owned();
        let name = "an-agent-with-quite-a-long-name-".repeat(2);
        let status = "completed".to_owned();
        let member = MemberSummary { member_id: id.clone(), role_id: "backend-developer".to_owned(), status };
        let created_at = "2026-01-01T00:00:00.000Z".to_owned();
        let squad = SquadSummary {
            squad_id: id.clone(),
            done: true,
            created_at: created_at.clone(),
            members: vec![member; 50],
        };
        let message = "Mend it. ".repeat(100);
        let active =
            ActiveAgent { name: name.clone(), role: "coder".to_owned(), current_task: Some(message.clone()) };
        let pending = PendingTask { id, agent_name: name, message, created_at };
        let overview = SquadStatus {
            active_agents: Some(vec![active; 200]),
            pending_tasks: Some(vec![pending; 100]),
            squads: Some(vec![squad; 50]),
            ..SquadStatus::default()
        };
        let overview = serde_json::to_value(overview).unwrap();
        let fitted = SquadStatus::PLAN.fitted(overview, serde_json::Map::new(), FROM_THE_BEGINNING);
        assert!(fitted.to_string().chars().count() <= ANSWER_CHARS, "{}", fitted.to_string().len());
        assert_eq!(
            (fitted["squads"].as_array().map(Vec::len), &fitted["truncated"]),
            (Some(50), &true.into())
        );
    }
}
