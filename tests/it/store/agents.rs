//! Agents: names and workspaces are unique among the living, and free again afterwards.

use fleet_mcp::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use fleet_mcp::domain::id::{AgentId, WorkspaceId};
use fleet_mcp::domain::metadata::{Dated, MetadataKey};
use fleet_mcp::domain::name::AgentName;
use fleet_mcp::domain::operation::OperationKind;
use fleet_mcp::store::{Accepted, RequestKey, Store, StoreError};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Home, agent, at, given, missing, operation, page, with_revision};

async fn create(store: &Store, agent: &Agent) -> Result<Accepted, StoreError> {
    let operation = operation(agent, OperationKind::Create);
    store.agent_create(agent, &operation, Some(&given(agent, "first task", 1)), None).await
}

#[tokio::test]
async fn a_created_agent_is_found_by_every_way_to_it() {
    let home = Home::new().await;
    let agent = agent("Agent-One");
    assert_eq!(create(&home.store, &agent).await.unwrap(), Accepted::New);
    let workspace = WorkspaceId(Uuid::now_v7());
    home.store.agent_workspace_set(agent.id, workspace).await.unwrap();

    let expected = Agent { workspace_id: Some(workspace), ..with_revision(&agent, 1) };
    assert_eq!(home.store.agent_by_id(agent.id).await.unwrap(), Some(expected.clone()));
    assert_eq!(home.store.agent_newest_by_name("agent-one").await.unwrap(), Some(expected.clone()));
    assert_eq!(home.store.agent_by_workspace(workspace).await.unwrap(), Some(expected.clone()));
    assert_eq!(home.store.agents_live().await.unwrap(), vec![expected]);
}

#[tokio::test]
async fn unknown_agents_are_none_to_readers_and_an_error_to_writers() {
    let Home { store, dir: _dir } = Home::new().await;
    let id = AgentId::fresh();
    let name = AgentName::parse("nobody").unwrap();
    assert_eq!(store.agent_by_id(id).await.unwrap(), None);
    assert_eq!(store.agent_newest_by_name("nobody").await.unwrap(), None);
    assert_eq!(store.agent_by_workspace(WorkspaceId(id.0)).await.unwrap(), None);
    let refusals = [
        store.agent_delete(id, at(1)).await.map(drop),
        store.agent_rename(id, &name).await,
        store.agent_workspace_set(id, WorkspaceId(id.0)).await,
        store
            .operation_accept(&operation(&Agent { id, ..agent("x") }, OperationKind::Stop), None)
            .await
            .map(drop),
    ];
    for refusal in refusals {
        assert_eq!(missing(refusal), "agent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_a_hundred_concurrent_creates_of_a_name_wins() {
    let home = Home::new().await;
    let mut creates = JoinSet::new();
    for n in 0..100 {
        let store = home.store.clone();
        creates.spawn(async move { create(&store, &agent(if n % 2 == 0 { "twin" } else { "TWIN" })).await });
    }
    let results = creates.join_all().await;
    let n_taken = results.iter().filter(|result| matches!(result, Err(StoreError::NameTaken))).count();
    let n_new = results.iter().filter(|result| matches!(result, Ok(Accepted::New))).count();
    assert_eq!((n_new, n_taken), (1, 99));
    assert_eq!(home.store.agents_live().await.unwrap().len(), 1);
    assert_eq!(home.store.operations_open().await.unwrap().len(), 1, "the losers left nothing behind");
}

#[tokio::test]
async fn a_deleted_agent_frees_its_name_and_its_history_stays_with_it() {
    let Home { store, dir: _dir } = Home::new().await;
    let first = agent("phoenix");
    create(&store, &first).await.unwrap();
    let gone = store.agent_delete(first.id, at(5)).await.unwrap();
    let expected = Sighting {
        status: AgentStatus::Deleted,
        previous_status: Some(AgentStatus::Pending),
        reason: "the workspace is gone".into(),
        attention: Attention::None,
        generation: 0,
        observed_at: None,
        revision: 2,
    };
    assert_eq!(gone, expected);
    assert_eq!(
        store.agent_delete(first.id, at(9)).await.unwrap(),
        expected,
        "a second delete changes nothing"
    );

    let deleted = Agent { deleted_at: Some(at(5)), updated_at: at(5), sighting: expected, ..first.clone() };
    assert_eq!(store.agents_live().await.unwrap(), vec![]);
    assert_eq!(store.agent_newest_by_name("phoenix").await.unwrap(), Some(deleted.clone()));

    let second = agent("Phoenix");
    assert_eq!(create(&store, &second).await.unwrap(), Accepted::New);
    assert_eq!(store.agent_newest_by_name("phoenix").await.unwrap(), Some(with_revision(&second, 3)));
    assert_eq!(store.agents_live().await.unwrap(), vec![with_revision(&second, 3)]);
    assert_eq!(store.agents_changed_after(1).await.unwrap(), vec![deleted, with_revision(&second, 3)]);
    assert_eq!(store.history_page(first.id, None, page(1, 10)).await.unwrap().page.total_count, 1);
}

#[tokio::test]
async fn deleted_agents_are_paged_with_the_last_deleted_first() {
    let Home { store, dir: _dir } = Home::new().await;
    let mut ids = Vec::new();
    for second in 1..=5 {
        let agent = agent("again");
        create(&store, &agent).await.unwrap();
        store.agent_delete(agent.id, at(second)).await.unwrap();
        ids.insert(0, agent.id);
    }
    for (number, items) in [(1, &ids[0..2]), (3, &ids[4..5]), (4, &ids[0..0])] {
        let found = store.agents_deleted(page(number, 2)).await.unwrap();
        assert_eq!((found.total_count, found.request), (5, page(number, 2)));
        assert_eq!(found.items.iter().map(|agent| agent.id).collect::<Vec<_>>(), items);
    }
}

#[tokio::test]
async fn an_adopted_workspace_needs_a_free_name_and_belongs_to_one_agent() {
    let home = Home::new().await;
    let known = home.agent("known").await;
    assert_eq!(home.store.agent_by_id(known.id).await.unwrap(), Some(known.clone()));
    assert_eq!(known.sighting.revision, 1);

    let same_name = home.store.agent_adopt(&agent("KNOWN")).await;
    assert!(matches!(same_name, Err(StoreError::NameTaken)), "{same_name:?}");
    let same_workspace = Agent { workspace_id: known.workspace_id, ..agent("other") };
    let adopted = home.store.agent_adopt(&same_workspace).await;
    assert!(matches!(adopted, Err(StoreError::WorkspaceTaken)), "{adopted:?}");

    let other = home.agent("other").await;
    let set = home.store.agent_workspace_set(other.id, known.workspace_id.unwrap()).await;
    assert!(matches!(set, Err(StoreError::WorkspaceTaken)), "{set:?}");
}

#[tokio::test]
async fn a_rename_is_a_visible_change_and_never_takes_a_live_name() {
    let home = Home::new().await;
    let (one, two) = (home.agent("one").await, home.agent("two").await);
    let taken = home.store.agent_rename(two.id, &AgentName::parse("ONE").unwrap()).await;
    assert!(matches!(taken, Err(StoreError::NameTaken)), "{taken:?}");

    let name = AgentName::parse("One").unwrap();
    home.store.agent_rename(one.id, &name).await.unwrap();
    home.store.agent_rename(one.id, &name).await.unwrap();
    let sighting =
        Sighting { previous_status: Some(AgentStatus::Pending), revision: 3, ..one.sighting.clone() };
    assert_eq!(home.store.agents_changed_after(2).await.unwrap(), vec![Agent { name, sighting, ..one }]);
}

#[tokio::test]
async fn discarding_forgets_everything_of_an_agent_without_a_workspace() {
    let Home { store, dir: _dir } = Home::new().await;
    let agent = agent("never-built");
    let operation = operation(&agent, OperationKind::Create);
    let key = RequestKey {
        principal: "manager".into(),
        tool: "create_agent".into(),
        key: "k".into(),
        fingerprint: [1; 32],
    };
    let first_task = given(&agent, "first task", 1);
    store.agent_create(&agent, &operation, Some(&first_task), Some(&key)).await.unwrap();
    let dated = Dated { value: "x".into(), changed_at: at(1) };
    store.metadata_set(agent.id, &MetadataKey::parse("fleet_mcp_x").unwrap(), &dated).await.unwrap();

    store.agent_discard(agent.id).await.unwrap();
    store.agent_discard(agent.id).await.unwrap();
    assert_eq!(store.agent_newest_by_name("never-built").await.unwrap(), None);
    assert_eq!(store.operation_by_id(operation.id).await.unwrap(), None);
    assert_eq!(store.history_page(agent.id, None, page(1, 10)).await.unwrap().page.total_count, 0);
    assert_eq!(store.metadata_live().await.unwrap(), vec![]);
    assert_eq!(store.revision().await.unwrap(), 1, "its revision is not given out again");
    let again = store.agent_create(&agent, &operation, Some(&first_task), Some(&key)).await.unwrap();
    assert_eq!(again, Accepted::New, "its request key is free");
    assert_eq!(store.integrity().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_agent_with_a_workspace_is_not_discarded() {
    let home = Home::new().await;
    let built = home.agent("built").await;
    let refusal = home.store.agent_discard(built.id).await;
    assert!(matches!(refusal, Err(StoreError::HasWorkspace)), "{refusal:?}");
    assert_eq!(home.store.agent_by_id(built.id).await.unwrap(), Some(built));
}
