//! A client that calls at random, repeats what went unanswered and files every answer.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;

use super::actions::choose;
use super::calls::{Call, Surface, perform};
use super::ledger::{Answer, AuditKey};
use super::world::{Principal, World};

/// What changes nothing leaves no audit row unless it is denied.
const READS: [&str; 7] = [
    "list_agents",
    "fleet_status",
    "squad_status",
    "show_agent",
    "show_agent_log",
    "show_agent_task_history",
    "wait_for_agents",
];

/// The calls of one client in a round.
const CALLS: usize = 12;
/// How often a call that is not answered is made again.
const REPEATS: usize = 5;

/// The principal and the rng of one client; `label` makes its marks unique.
pub(super) struct Client {
    pub(super) principal: Principal,
    pub(super) label: String,
    pub(super) rng: StdRng,
}

impl Client {
    pub(super) async fn run(mut self, world: &World) {
        for n in 0..CALLS {
            let mark = format!("{}-{n}", self.label);
            let call = choose(&mut self.rng, &mark);
            let surface = if self.rng.random_bool(0.5) { Surface::Rest } else { Surface::Mcp };
            let n_repeats = if self.rng.random_bool(0.7) { REPEATS } else { 0 };
            let pause = self.rng.random_range(0..120);
            let mut is_answered = self.call(world, surface, &call, &mark).await;
            for _ in 0..n_repeats {
                // The same request key: there is one effect, with or without a response to the first call.
                if !is_answered {
                    is_answered = self.call(world, surface, &call, &mark).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn call(&self, world: &World, surface: Surface, call: &Call, mark: &str) -> bool {
        let api = match tokio::time::timeout(Duration::from_secs(60), world.api()).await {
            Ok(api) => api,
            Err(_) => return true,
        };
        let answer = perform(&api, &self.principal.token, surface, call).await;
        let Some(answer) = answer else {
            world.ledger.note(|acknowledged| acknowledged.n_unanswered += 1);
            // The server has just died; the killer says so in a moment.
            tokio::time::sleep(Duration::from_millis(20)).await;
            return false;
        };
        self.file(world, call, mark, &answer);
        true
    }

    fn file(&self, world: &World, call: &Call, mark: &str, answer: &Answer) {
        let (outcome, text) = match answer {
            Answer::Result(value) => ("allowed".to_owned(), value.to_string()),
            Answer::Refused { code, text } => (code.clone(), text.clone()),
        };
        let leaked = world.secrets().into_iter().filter(|secret| text.contains(secret.as_str()));
        let leaked: Vec<String> = leaked.map(|_| format!("{} answered with a secret", call.tool)).collect();
        world.ledger.note(|acknowledged| {
            acknowledged.n_answered += 1;
            acknowledged.leaks.extend(leaked);
            acknowledged.count(call.tool, &outcome);
            if let Answer::Result(value) = answer {
                acknowledged.acknowledge(&format!("{} {}", call.tool, call.arguments), Some(mark), value);
            }
            if let Some(audit_key) = self.audit_key(call, answer) {
                *acknowledged.trail.entry(audit_key).or_default() += 1;
            }
        });
    }

    /// The audit row that this answer implies; arguments that could not be read imply none.
    fn audit_key(&self, call: &Call, answer: &Answer) -> Option<AuditKey> {
        let is_read = READS.contains(&call.tool);
        let outcome = match answer {
            Answer::Result(_) if is_read => return None,
            Answer::Result(_) => "allowed",
            Answer::Refused { code, .. } if code == "FORBIDDEN" => "denied",
            Answer::Refused { code, .. } if is_read || code == "INVALID_INPUT" => return None,
            Answer::Refused { .. } => "failed",
        };
        let target = match call.tool {
            "create_agent" => &call.arguments["name"],
            "start_squad_members" => &Value::Null,
            _ => &call.arguments["agent_name"],
        };
        Some(AuditKey {
            principal: self.principal.name.clone(),
            action: call.tool.to_owned(),
            target: target.as_str().map(str::to_lowercase),
            outcome: outcome.to_owned(),
        })
    }
}
