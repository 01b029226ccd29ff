//! The smaller records: metadata, tokens, audit.

use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::id::{AgentId, OperationId, TokenId};
use fleet_mcp::domain::metadata::{Dated, Metadata, MetadataKey};
use fleet_mcp::domain::page::Page;
use fleet_mcp::domain::role::RoleKind;
use fleet_mcp::store::{AuditOutcome, AuditRow, StoreError, TokenRecord};

use super::{Home, at, missing, page};

fn dated(value: &str, second: i64) -> Dated {
    Dated { value: value.into(), changed_at: at(second) }
}

#[tokio::test]
async fn metadata_set_last_wins_and_deleted_agents_are_left_out_of_the_live_ones() {
    let home = Home::new().await;
    let (one, gone) = (home.agent("one").await, home.agent("gone").await);
    let (ticket, branch) =
        (MetadataKey::parse("fleet_mcp_ticket").unwrap(), MetadataKey::parse("fleet_mcp_branch").unwrap());
    for (agent, key, dated) in [
        (&one, &ticket, dated("A-1", 1)),
        (&one, &branch, dated("main", 2)),
        (&one, &ticket, dated("A-2", 3)),
        (&gone, &ticket, dated("B-1", 4)),
    ] {
        home.store.metadata_set(agent.id, key, &dated).await.unwrap();
    }
    home.store.agent_delete(gone.id, at(5)).await.unwrap();

    let of_one = Metadata::from([
        ("fleet_mcp_ticket".to_owned(), dated("A-2", 3)),
        ("fleet_mcp_branch".to_owned(), dated("main", 2)),
    ]);
    assert_eq!(home.store.metadata_of(one.id).await.unwrap(), of_one);
    assert_eq!(home.store.metadata_live().await.unwrap(), vec![(one.id, of_one)]);
    let of_gone = Metadata::from([("fleet_mcp_ticket".to_owned(), dated("B-1", 4))]);
    assert_eq!(home.store.metadata_of(gone.id).await.unwrap(), of_gone);

    let absent = home.store.metadata_set(AgentId::fresh(), &ticket, &dated("x", 1)).await;
    assert_eq!(missing(absent), "agent");
}

#[tokio::test]
async fn metadata_has_bounds_that_what_the_fleet_counts_is_not_part_of() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let set = async |key: &str, value: &str| {
        let key = MetadataKey::parse(&format!("fleet_mcp_{key}")).unwrap();
        home.store.metadata_set(agent.id, &key, &dated(value, 1)).await.map_err(|error| error.to_string())
    };
    let full = Err(StoreError::MetadataFull.to_string());
    for number in 0..100 {
        assert_eq!(set(&format!("k{number}"), "x").await, Ok(()));
    }
    assert_eq!((set("more", "x").await, set("k1", "y").await), (full.clone(), Ok(())));
    assert_eq!((set("k1", " ").await, set("more", "x").await), (Ok(()), Ok(())));
    // Bytes count, not characters.
    assert_eq!(set("k2", &"ü".repeat(32_768)).await, full);
    assert_eq!(home.store.metadata_of(agent.id).await.unwrap()["fleet_mcp_k2"], dated("x", 1));
}

fn token(name: &str, second: i64, parent: Option<TokenId>) -> TokenRecord {
    TokenRecord {
        id: TokenId::fresh(),
        kind: RoleKind::Manager,
        name: name.into(),
        role: None,
        agent: None,
        generation: None,
        projects: AllowedProjects::All,
        parent,
        created_at: at(second),
        expires_at: None,
        revoked_at: None,
    }
}

#[tokio::test]
async fn a_token_is_found_by_its_hash_alone_and_read_back_whole() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let plain = token("operator", 1, None);
    let full = TokenRecord {
        kind: RoleKind::Coding,
        role: Some("coder".into()),
        agent: Some(agent.id),
        generation: Some(3),
        projects: AllowedProjects::Only(vec!["setup".into(), "a \"quoted\" one".into()]),
        expires_at: Some(at(9)),
        ..token("agent one", 2, Some(plain.id))
    };
    let none_allowed = TokenRecord { projects: AllowedProjects::Only(vec![]), ..token("nothing", 3, None) };
    let tokens = [plain, full, none_allowed];
    for (token, byte) in tokens.iter().zip(1..) {
        home.store.token_insert(token, &[byte; 32]).await.unwrap();
        assert_eq!(home.store.token_by_hash(&[byte; 32]).await.unwrap().as_ref(), Some(token));
    }
    assert_eq!(home.store.token_by_hash(&[9; 32]).await.unwrap(), None);
    assert_eq!(home.store.tokens().await.unwrap(), tokens);
    assert!(home.store.token_insert(&token("copy", 4, None), &[1; 32]).await.is_err(), "hashes are unique");
}

#[tokio::test]
async fn revoking_a_token_revokes_all_under_it_and_nothing_beside_it() {
    let home = Home::new().await;
    let root = token("root", 1, None);
    let child = token("child", 2, Some(root.id));
    let grandchild = token("grandchild", 3, Some(child.id));
    let beside = token("beside", 4, Some(root.id));
    let tokens = [&root, &child, &grandchild, &beside];
    for (token, byte) in tokens.into_iter().zip(1..) {
        home.store.token_insert(token, &[byte; 32]).await.unwrap();
    }
    assert_eq!(home.store.token_revoke(child.id, at(5)).await.unwrap(), Some(2));
    let revoked_at = async || {
        let tokens = home.store.tokens().await.unwrap();
        tokens.into_iter().map(|token| token.revoked_at).collect::<Vec<_>>()
    };
    assert_eq!(revoked_at().await, vec![None, Some(at(5)), Some(at(5)), None]);
    assert_eq!(
        home.store.token_revoke(root.id, at(6)).await.unwrap(),
        Some(2),
        "the others were revoked before"
    );
    assert_eq!(revoked_at().await, vec![Some(at(6)), Some(at(5)), Some(at(5)), Some(at(6))]);
    assert_eq!(home.store.token_revoke(root.id, at(7)).await.unwrap(), Some(0), "it was revoked before");
    assert_eq!(home.store.token_revoke(TokenId::fresh(), at(7)).await.unwrap(), None);

    let late = home.store.token_insert(&token("late", 8, Some(root.id)), &[8; 32]).await;
    assert!(matches!(late, Err(StoreError::ParentRevoked)), "{late:?}");
}

#[tokio::test]
async fn the_audit_trail_is_paged_newest_first_in_the_order_written() {
    let home = Home::new().await;
    let row = |n: i64, outcome| AuditRow {
        at: at(-n),
        principal_kind: RoleKind::Operator,
        principal: format!("caller {n}"),
        token_id: (n == 1).then(TokenId::fresh),
        surface: "rest".into(),
        action: "delete_agent".into(),
        target: (n == 2).then(|| "agent-two".into()),
        outcome,
        code: (n == 2).then(|| "FORBIDDEN".into()),
        reason: (n == 2).then(|| "an agent may do this only to itself".into()),
        operation_id: (n == 3).then(OperationId::fresh),
    };
    let rows = [row(1, AuditOutcome::Allowed), row(2, AuditOutcome::Denied), row(3, AuditOutcome::Failed)];
    for row in &rows {
        home.store.audit_add(row).await.unwrap();
    }
    let [first, second, third] = rows;
    for (number, items) in [(1, vec![third, second]), (2, vec![first]), (3, vec![])] {
        let expected = Page { items, total_count: 3, request: page(number, 2) };
        assert_eq!(home.store.audit_page(page(number, 2)).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn tokens_of_agents_are_forgotten_long_after_their_end_unless_others_hang_under_them() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let of_agent = |name: &str, expires: i64| TokenRecord {
        agent: Some(agent.id),
        generation: Some(1),
        expires_at: Some(at(expires)),
        ..token(name, 1, None)
    };
    let parent = of_agent("parent", 2);
    let persons = TokenRecord { expires_at: Some(at(2)), ..token("person", 2, None) };
    let tokens = [
        parent.clone(),
        of_agent("old", 2),
        of_agent("new", 9),
        persons,
        TokenRecord { agent: Some(agent.id), ..token("child", 3, Some(parent.id)) },
    ];
    for (token, byte) in tokens.iter().zip(1..) {
        home.store.token_insert(token, &[byte; 32]).await.unwrap();
    }
    assert_eq!(home.store.tokens_prune(at(5)).await.unwrap(), 1);
    let left: Vec<String> = home.store.tokens().await.unwrap().into_iter().map(|token| token.name).collect();
    assert_eq!(left.len(), 4);
    assert!(!left.contains(&"old".to_owned()), "{left:?}");
    let newest = home.store.token_newest_of(agent.id).await.unwrap().unwrap();
    assert_eq!(newest.name, "child");
}
