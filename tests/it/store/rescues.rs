//! Rescues and provisions: accepted with their delete, moved forward only, read back whole.

use chrono::TimeDelta;
use fleet_mcp::domain::history::HistoryKind;
use fleet_mcp::domain::operation::{CancelRequest, OperationEnd, OperationKind};
use fleet_mcp::domain::provision::{Callback, Provision};
use fleet_mcp::domain::rescue::{Rescue, RescueOutcome, SavedWork};
use fleet_mcp::store::{Accepted, RequestKey};

use super::{Home, at, operation, page, report};

#[tokio::test]
async fn a_rescue_is_accepted_with_its_delete_or_not_at_all() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let key = RequestKey {
        principal: "operator".into(),
        tool: "delete_agent".into(),
        key: "k".into(),
        fingerprint: [1; 32],
    };
    let delete = operation(&agent, OperationKind::Delete);
    let rescue = Rescue::of(delete.id, (agent.id, &agent.name), &agent.project, at(2));
    assert_eq!(home.store.delete_accept(&delete, Some(&rescue), Some(&key)).await.unwrap(), Accepted::New);
    assert_eq!(home.store.rescue_of(delete.id).await.unwrap(), Some(rescue.clone()));

    let again = operation(&agent, OperationKind::Delete);
    let other = Rescue::of(again.id, (agent.id, &agent.name), &agent.project, at(3));
    let repeated = home.store.delete_accept(&again, Some(&other), Some(&key)).await.unwrap();
    assert!(matches!(repeated, Accepted::Repeated(earlier) if earlier.id == delete.id));
    assert_eq!(home.store.rescue_of(again.id).await.unwrap(), None);
    assert_eq!(home.store.rescues_page(page(1, 10)).await.unwrap().items, [rescue]);
}

#[tokio::test]
async fn a_rescue_only_moves_forward_and_its_end_is_told_in_the_history_once() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let saved = SavedWork {
        file: "one.bundle".into(),
        bytes: 12,
        commit: "abc".into(),
        note: Some("half of it".into()),
    };
    let ends = [
        RescueOutcome::Saved(saved),
        RescueOutcome::Nothing,
        RescueOutcome::Failed { reason: "it hangs".into() },
    ];
    for (end, second) in ends.iter().zip(10..) {
        let delete = operation(&agent, OperationKind::Delete);
        let rescue = Rescue::of(delete.id, (agent.id, &agent.name), &agent.project, at(second));
        home.store.delete_accept(&delete, Some(&rescue), None).await.unwrap();
        home.store.operation_end(delete.id, &OperationEnd::Done, at(second)).await.unwrap();
        let trying = RescueOutcome::Trying { since: at(second) + TimeDelta::microseconds(1) };
        assert!(home.store.rescue_move(rescue.id, &trying, None).await.unwrap());
        let entry = report(&agent, "saved", second);
        assert!(home.store.rescue_move(rescue.id, end, Some(&entry)).await.unwrap());
        let late = report(&agent, "too late", second);
        assert!(!home.store.rescue_move(rescue.id, &trying, Some(&late)).await.unwrap());
        let read = home.store.rescue_by_id(rescue.id).await.unwrap().unwrap();
        assert_eq!(read, Rescue { outcome: end.clone(), ..rescue });
    }
    let told = home.store.history_page(agent.id, Some(HistoryKind::Report), page(1, 10)).await.unwrap().page;
    let told: Vec<&str> = told.items.iter().map(|entry| entry.line().message.as_str()).collect();
    assert_eq!(told, ["saved", "saved", "saved"]);
}

#[tokio::test]
async fn of_two_deletes_at_once_the_first_counts_with_what_it_keeps() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let (first, second) =
        (operation(&agent, OperationKind::Delete), operation(&agent, OperationKind::Delete));
    let rescue = Rescue::of(first.id, (agent.id, &agent.name), &agent.project, at(2));
    home.store.delete_accept(&first, Some(&rescue), None).await.unwrap();
    let key = RequestKey {
        principal: "operator".into(),
        tool: "delete_agent".into(),
        key: "k".into(),
        fingerprint: [1; 32],
    };
    for _ in 0..2 {
        let accepted = home.store.delete_accept(&second, None, Some(&key)).await.unwrap();
        assert!(matches!(accepted, Accepted::Repeated(earlier) if earlier.id == first.id));
        home.store.operation_end(first.id, &OperationEnd::Done, at(3)).await.unwrap();
    }
    assert_eq!(home.store.operations_of(agent.id, 9).await.unwrap().len(), 1);
    assert_eq!(home.store.rescue_of(first.id).await.unwrap(), Some(rescue));
}

#[tokio::test]
async fn a_delete_that_overtakes_another_ends_its_rescue_and_keeps_its_own() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let mut rescues = Vec::new();
    for second in [2, 3] {
        let delete = operation(&agent, OperationKind::Delete);
        let rescue = Rescue::of(delete.id, (agent.id, &agent.name), &agent.project, at(second));
        assert_eq!(
            home.store.delete_accept(&delete, Some(&rescue), None).await.unwrap(),
            Accepted::New,
            "a delete that is to be canceled is no longer one"
        );
        let request = CancelRequest { by: "ann".into(), at: at(second) };
        home.store.operation_cancel(delete.id, &request).await.unwrap();
        rescues.push((delete.id, rescue));
    }
    let [(first, overtaken), (second, own)] = &rescues[..] else { panic!("two were accepted") };
    let canceled = home.store.operations_cancel_before(*second, agent.id, at(4)).await.unwrap();
    assert_eq!(canceled, [*first]);
    let outcome = RescueOutcome::Failed { reason: "it was replaced by a later delete".into() };
    let ended = Rescue { outcome, ..overtaken.clone() };
    assert_eq!(home.store.rescue_of(*first).await.unwrap(), Some(ended));
    assert_eq!(home.store.rescue_of(*second).await.unwrap().as_ref(), Some(own));
    let trying = RescueOutcome::Trying { since: at(5) };
    assert!(!home.store.rescue_move(overtaken.id, &trying, None).await.unwrap());
}

#[tokio::test]
async fn newest_provisioning_of_an_agent_replaces_the_earlier_one() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let first = Provision {
        agent_id: agent.id,
        generation: 1,
        url: "http://127.0.0.1:1".into(),
        callback: Callback::Unreachable,
        token_expires_at: at(100),
        at: at(1),
    };
    let second = Provision {
        generation: 3,
        url: "http://127.0.0.1:2".into(),
        callback: Callback::Direct,
        ..first.clone()
    };
    for given in [&first, &second] {
        home.store.provision_set(given).await.unwrap();
        assert_eq!(home.store.provisions_live().await.unwrap(), std::slice::from_ref(given));
    }
    home.store.agent_delete(agent.id, at(9)).await.unwrap();
    assert_eq!(home.store.provisions_live().await.unwrap(), []);
}
