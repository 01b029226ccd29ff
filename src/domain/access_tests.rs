//! The whole decision table: kind x action x target, written out.

use super::*;

fn principal(kind: RoleKind, is_agent: bool) -> Principal {
    Principal {
        kind,
        name: "caller".into(),
        role: None,
        token_id: None,
        agent: is_agent.then_some(OWN),
        projects: AllowedProjects::Only(vec!["Setup".into()]),
    }
}

const OWN: AgentId = AgentId(uuid::Uuid::from_u128(1));
const OTHER: AgentId = AgentId(uuid::Uuid::from_u128(2));

fn agent<'a>(id: AgentId, project: &'a str, created_by: Option<&'a str>) -> Target<'a> {
    Target::Agent(AgentTarget { id, project, kind: RoleKind::Coding, created_by })
}

fn verdicts(caller: &Principal, action: Action) -> String {
    let signature = caller.signature();
    let own = Some(signature.as_str());
    let targets = [
        ("fleet", Target::Fleet),
        ("own", agent(OWN, "setup", None)),
        ("child", agent(OTHER, "setup", own)),
        ("other", agent(OTHER, "setup", Some("someone"))),
        ("foreign", agent(OTHER, "dataone", own)),
        (
            "manager",
            Target::Agent(AgentTarget {
                id: OTHER,
                project: "setup",
                kind: RoleKind::Manager,
                created_by: own,
            }),
        ),
        // Created by a person with the caller's name.
        ("namesake", agent(OTHER, "setup", Some("caller"))),
        ("new", Target::NewAgent { project: "setup", kind: RoleKind::Coding }),
        ("absent", Target::Absent),
    ];
    let allowed = targets.iter().filter(|(_, target)| authorize(caller, action, *target).is_ok());
    allowed.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_decision_table_is_exactly_this() {
    let callers = [
        ("operator", principal(RoleKind::Operator, false)),
        ("manager person", principal(RoleKind::Manager, false)),
        ("manager agent", principal(RoleKind::Manager, true)),
        ("operator agent", principal(RoleKind::Operator, true)),
        ("coding", principal(RoleKind::Coding, true)),
        ("review", principal(RoleKind::Review, true)),
        ("planning", principal(RoleKind::Planning, true)),
    ];
    let mut table = String::new();
    for (name, caller) in &callers {
        for action in Action::ALL {
            table.push_str(&format!("{name:15} {:24} {}\n", action.name(), verdicts(caller, *action)));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_is_offered_can_succeed_on_some_target_and_what_is_not_cannot() {
    for kind in RoleKind::ALL {
        for is_agent in [false, true] {
            let caller = principal(*kind, is_agent);
            for action in Action::ALL {
                let can_succeed = !verdicts(&caller, *action).is_empty();
                assert_eq!(action.is_offered_to(&caller), can_succeed, "{kind} {is_agent} {}", action.name());
            }
        }
    }
}

#[test]
fn an_empty_list_of_projects_allows_none_and_case_does_not_matter() {
    assert!(!AllowedProjects::Only(vec![]).allow("setup"));
    assert!(AllowedProjects::Only(vec!["Setup".into()]).allow("SETUP"));
    assert!(AllowedProjects::All.allow("anything"));
}

#[test]
fn an_agent_of_any_kind_has_at_most_what_a_manager_agent_has() {
    let manager = principal(RoleKind::Manager, true);
    for kind in RoleKind::ALL {
        for action in Action::ALL {
            let most = verdicts(&manager, *action);
            let granted = verdicts(&principal(*kind, true), *action);
            let beyond = granted.split(' ').find(|target| !target.is_empty() && !most.contains(target));
            assert_eq!(beyond, None, "{kind} {}", action.name());
        }
    }
}

#[test]
fn a_signature_names_its_agent_and_a_persons_names_none() {
    assert_eq!(signing_agent(&principal(RoleKind::Coding, true).signature()), Some(OWN));
    assert_eq!(signing_agent(&principal(RoleKind::Manager, false).signature()), None);
    let token_id = |id| Some(TokenId(uuid::Uuid::from_u128(id)));
    let namesakes =
        [1, 2].map(|id| Principal { token_id: token_id(id), ..principal(RoleKind::Manager, false) });
    assert_ne!(namesakes[0].signature(), namesakes[1].signature());
    let restarted =
        [1, 2].map(|id| Principal { token_id: token_id(id), ..principal(RoleKind::Coding, true) });
    assert_eq!(restarted[0].signature(), restarted[1].signature());
}

#[test]
fn only_operators_and_managers_bring_their_directory() {
    let may = |is_agent| {
        let kinds = RoleKind::ALL.iter();
        kinds.filter(|kind| principal(**kind, is_agent).may_bring_directory()).copied().collect::<Vec<_>>()
    };
    assert_eq!((may(false), may(true)), (vec![RoleKind::Operator, RoleKind::Manager], vec![]));
}
