//! The server's instructions for a client: those for its caller, with the caller's own tool names.

use rmcp::model::Tool;

use super::tools::is_tool;
use crate::domain::access::Principal;
use crate::domain::role::RoleKind;

const OPERATOR: &str = include_str!("instructions/operator.md");
const MANAGER: &str = include_str!("instructions/manager.md");
const MANAGER_AGENT: &str = include_str!("instructions/manager_agent.md");
const CODING: &str = include_str!("instructions/coding.md");
const REVIEW: &str = include_str!("instructions/review.md");
const PLANNING: &str = include_str!("instructions/planning.md");
const READING: &str = include_str!("instructions/reading.md");
/// For callers that manage a fleet.
const LEADING: &str = include_str!("instructions/leading.md");
/// For agents, about their own work.
const WORKING: &str = include_str!("instructions/working.md");
/// How to read results.
const RESULTS: &str = include_str!("instructions/results.md");

/// The instructions for this caller, without lines that name a tool the caller is not offered.
pub(super) fn of(principal: &Principal, offered: &[Tool]) -> String {
    let is_offered = |word: &str| offered.iter().any(|tool| tool.name == word);
    let lines = parts(principal).iter().flat_map(|part| part.lines());
    let kept = lines.filter(|line| words(line).filter(|word| is_tool(word)).all(is_offered));
    kept.collect::<Vec<_>>().join("\n")
}

fn parts(principal: &Principal) -> &'static [&'static str] {
    match (principal.kind, principal.agent) {
        (RoleKind::Operator, None) => &[OPERATOR, LEADING],
        (RoleKind::Manager, None) => &[MANAGER, LEADING],
        (RoleKind::Operator | RoleKind::Manager, Some(_)) => &[MANAGER_AGENT, LEADING],
        (RoleKind::Coding, Some(_)) => &[CODING, WORKING, RESULTS],
        (RoleKind::Review, Some(_)) => &[REVIEW, WORKING, RESULTS],
        (RoleKind::Planning, Some(_)) => &[PLANNING, WORKING, RESULTS],
        (RoleKind::Coding | RoleKind::Review | RoleKind::Planning, None) => &[READING, RESULTS],
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::access::AllowedProjects;
    use crate::domain::id::AgentId;

    #[test]
    fn every_text_fits_what_clients_keep() {
        for kind in RoleKind::ALL {
            for agent in [None, Some(AgentId(uuid::Uuid::nil()))] {
                let principal = Principal {
                    kind: *kind,
                    name: "caller".into(),
                    role: None,
                    token_id: None,
                    agent,
                    projects: AllowedProjects::All,
                };
                let whole: usize = parts(&principal).iter().map(|part| part.chars().count()).sum();
                assert!(whole <= 2_000, "{kind} {agent:?}: {whole}");
            }
        }
    }
}
