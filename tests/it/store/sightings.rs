//! Sightings: the revision grows with every visible change and with nothing else.

use fleet_mcp::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use fleet_mcp::domain::id::AgentId;
use fleet_mcp::domain::status::Verdict;
use fleet_mcp::store::NewSighting;

use super::{Home, agent, at, missing};

fn seen(status: AgentStatus, second: i64) -> NewSighting {
    NewSighting { verdict: Verdict::new(status, "looked at"), generation: 1, observed_at: Some(at(second)) }
}

#[tokio::test]
async fn only_a_visible_change_gives_a_new_revision() {
    let home = Home::new().await;
    let agent = home.agent("watched").await;
    let sight = async |seen: &NewSighting| home.store.agent_sight(agent.id, seen).await.unwrap();

    let idle = sight(&seen(AgentStatus::Idle, 1)).await;
    let expected = Sighting {
        status: AgentStatus::Idle,
        previous_status: Some(AgentStatus::Pending),
        reason: "looked at".into(),
        attention: Attention::None,
        generation: 1,
        observed_at: Some(at(1)),
        revision: 2,
    };
    assert_eq!(idle, expected);
    let stored = Agent { updated_at: at(1), sighting: expected.clone(), ..agent.clone() };
    assert_eq!(home.store.agent_by_id(agent.id).await.unwrap(), Some(stored.clone()));

    let same = sight(&seen(AgentStatus::Idle, 2)).await;
    let expected = Sighting { observed_at: Some(at(2)), ..expected };
    assert_eq!(same, expected);
    let stored = Agent { sighting: expected, ..stored };
    assert_eq!(home.store.agent_by_id(agent.id).await.unwrap(), Some(stored), "updated_at has not moved");

    let base = seen(AgentStatus::Idle, 3);
    let stuck = Verdict { attention: Attention::Stuck, ..base.verdict.clone() };
    let said = Verdict { reason: "says more".into(), ..stuck.clone() };
    let changes = [
        NewSighting { verdict: stuck, ..base.clone() },
        NewSighting { verdict: said.clone(), ..base.clone() },
        NewSighting { verdict: said, generation: 2, ..base },
    ];
    for (change, revision) in changes.iter().zip(3..) {
        let sighting = sight(change).await;
        assert_eq!((sighting.revision, sighting.previous_status), (revision, Some(AgentStatus::Idle)));
    }
    assert_eq!(home.store.revision().await.unwrap(), 5);
}

#[tokio::test]
async fn a_batch_gives_revisions_in_order_and_leaves_out_unknown_agents() {
    let home = Home::new().await;
    let (one, two) = (home.agent("one").await, home.agent("two").await);
    home.store.agent_sight(two.id, &seen(AgentStatus::Idle, 1)).await.unwrap();
    let looks = [
        (two.id, seen(AgentStatus::Idle, 2)),
        (AgentId::fresh(), seen(AgentStatus::Idle, 2)),
        (one.id, seen(AgentStatus::Busy, 2)),
        (two.id, seen(AgentStatus::Busy, 2)),
    ];
    let sighted = home.store.agents_sight(&looks).await.unwrap();
    let short: Vec<_> = sighted.iter().map(|(id, s)| (*id, s.status, s.revision)).collect();
    assert_eq!(
        short,
        vec![(two.id, AgentStatus::Idle, 3), (one.id, AgentStatus::Busy, 4), (two.id, AgentStatus::Busy, 5)]
    );
    let changed = home.store.agents_changed_after(3).await.unwrap();
    let stored: Vec<_> = changed.into_iter().map(|agent| (agent.id, agent.sighting)).collect();
    assert_eq!(stored, sighted[1..]);
}

#[tokio::test]
async fn a_deleted_agent_is_never_seen_alive_again() {
    let home = Home::new().await;
    let agent = home.agent("gone").await;
    let gone = home.store.agent_delete(agent.id, at(1)).await.unwrap();
    assert_eq!(home.store.agent_sight(agent.id, &seen(AgentStatus::Idle, 2)).await.unwrap(), gone);
    assert_eq!(home.store.revision().await.unwrap(), gone.revision);
}

#[tokio::test]
async fn seeing_a_deleted_workspace_deletes_the_agent() {
    let home = Home::new().await;
    let agent = home.agent("removed-outside").await;
    let sighting = home.store.agent_sight(agent.id, &seen(AgentStatus::Deleted, 4)).await.unwrap();
    let expected = Agent { deleted_at: Some(at(4)), updated_at: at(4), sighting, ..agent.clone() };
    assert_eq!(home.store.agent_newest_by_name("removed-outside").await.unwrap(), Some(expected));
    assert_eq!(home.store.agents_live().await.unwrap(), vec![]);
}

#[tokio::test]
async fn seeing_an_agent_that_was_never_recorded_is_an_error() {
    let home = Home::new().await;
    let stranger = agent("stranger");
    let refusal = home.store.agent_sight(stranger.id, &seen(AgentStatus::Idle, 1)).await;
    assert_eq!(missing(refusal), "agent");
}
