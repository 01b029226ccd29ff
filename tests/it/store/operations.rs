//! Operations: accepted once, carried out in order, ended for good.

use fleet_mcp::domain::agent::Agent;
use fleet_mcp::domain::id::OperationId;
use fleet_mcp::domain::operation::{Failure, Operation, OperationEnd, OperationKind, Progress};
use fleet_mcp::store::{Accepted, RequestKey, StoreError};
use tokio::task::JoinSet;

use super::{Home, agent, at, given, missing, operation};

fn key(fingerprint: u8) -> RequestKey {
    RequestKey {
        principal: "manager".into(),
        tool: "stop_agent".into(),
        key: "my-key".into(),
        fingerprint: [fingerprint; 32],
    }
}

#[tokio::test]
async fn progress_and_end_are_read_back_whole() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let accepted = operation(&agent, OperationKind::Restart);
    assert_eq!(home.store.operation_accept(&accepted, None).await.unwrap(), Accepted::New);
    assert_eq!(home.store.operation_by_id(accepted.id).await.unwrap(), Some(accepted.clone()));

    let steps = [
        Progress::Sending { sent_at: at(2), base_build: 4 },
        Progress::Following { build: 5, ended_at: None },
        Progress::Following { build: 5, ended_at: Some(at(3)) },
        Progress::Accepted,
    ];
    let mut expected = accepted;
    for (progress, second) in steps.into_iter().zip(2..) {
        home.store.operation_progress(expected.id, progress, at(second)).await.unwrap();
        expected = Operation { progress, updated_at: at(second), ..expected };
        assert_eq!(home.store.operation_by_id(expected.id).await.unwrap(), Some(expected.clone()));
    }

    let failure = Failure { code: "BUILD_FAILED".into(), message: "no disk".into() };
    let end = OperationEnd::Failed(failure);
    assert!(home.store.operation_end(expected.id, &end, at(9)).await.unwrap());
    let ended = Operation { end: Some(end), updated_at: at(9), ..expected };
    assert_eq!(home.store.operation_by_id(ended.id).await.unwrap(), Some(ended.clone()));
    assert_eq!(home.store.operations_open().await.unwrap(), vec![]);
    assert_eq!(home.store.operations_of(agent.id, 5).await.unwrap(), vec![ended]);
}

#[tokio::test]
async fn an_operation_that_contradicts_itself_is_refused() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let accepted = operation(&agent, OperationKind::Stop);
    home.store.operation_accept(&accepted, None).await.unwrap();
    let cases = [
        ("UPDATE operations SET state = 'running'", "unexpected value 'running'"),
        ("UPDATE operations SET state = 'failed'", "unexpected value 'failed'"),
        (
            "UPDATE operations SET state = 'done', failure_code = 'X', failure_message = 'so'",
            "unexpected value 'done'",
        ),
        ("UPDATE operations SET failure_message = NULL", "half of a pair"),
        ("UPDATE operations SET state = 'pending', failure_code = NULL, cancel_at = 1", "half of a pair"),
    ];
    for (sql, reason) in cases {
        home.tamper(sql).await;
        let refused = home.store.operation_by_id(accepted.id).await.unwrap_err();
        assert!(format!("{refused:?}").contains(reason), "{sql}: {refused:?}");
    }
    home.tamper("UPDATE operations SET cancel_at = NULL").await;
    assert_eq!(home.store.operation_by_id(accepted.id).await.unwrap(), Some(accepted));
}

#[tokio::test]
async fn an_ended_operation_never_reopens() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    for end in [OperationEnd::Done, OperationEnd::Canceled(Some("nothing".into()))] {
        let operation = operation(&agent, OperationKind::Start);
        home.store.operation_accept(&operation, None).await.unwrap();
        assert!(home.store.operation_end(operation.id, &end, at(2)).await.unwrap());
        let ended = home.store.operation_by_id(operation.id).await.unwrap();

        assert!(!home.store.operation_end(operation.id, &OperationEnd::Done, at(3)).await.unwrap());
        let progress = home.store.operation_progress(operation.id, Progress::Accepted, at(3)).await;
        assert!(matches!(progress, Err(StoreError::Ended)), "{progress:?}");
        assert_eq!(home.store.operation_by_id(operation.id).await.unwrap(), ended);
    }
}

#[tokio::test]
async fn operations_that_are_not_there_are_said_to_be_missing() {
    let home = Home::new().await;
    let id = OperationId::fresh();
    let end = home.store.operation_end(id, &OperationEnd::Done, at(1)).await;
    assert_eq!(missing(end), "operation");
    let progress = home.store.operation_progress(id, Progress::Accepted, at(1)).await;
    assert_eq!(missing(progress), "operation");
}

#[tokio::test]
async fn open_operations_come_in_the_order_accepted_not_by_their_times() {
    let home = Home::new().await;
    let (one, two) = (home.agent("one").await, home.agent("two").await);
    let mut accepted = Vec::new();
    for (agent, second) in [(&one, 30), (&two, 10), (&one, 20)] {
        let operation = Operation {
            created_at: at(second),
            updated_at: at(second),
            ..operation(agent, OperationKind::Stop)
        };
        home.store.operation_accept(&operation, None).await.unwrap();
        accepted.push(operation);
    }
    assert_eq!(home.store.operations_open().await.unwrap(), accepted);
    let newest_first = vec![accepted[2].clone(), accepted[0].clone()];
    assert_eq!(home.store.operations_of(one.id, 9).await.unwrap(), newest_first);
    assert_eq!(home.store.operations_of(one.id, 1).await.unwrap(), newest_first[..1]);
}

#[tokio::test]
async fn a_delete_cancels_what_is_before_it_and_of_the_same_agent_only() {
    let home = Home::new().await;
    let (one, two) = (home.agent("one").await, home.agent("two").await);
    let operations = [
        operation(&one, OperationKind::Start),
        operation(&one, OperationKind::Stop),
        operation(&two, OperationKind::Stop),
        operation(&one, OperationKind::Restart),
        operation(&one, OperationKind::Delete),
    ];
    for operation in &operations {
        home.store.operation_accept(operation, None).await.unwrap();
    }
    let after = home.store.operation_accept(&operation(&one, OperationKind::Start), None).await;
    assert!(matches!(after, Err(StoreError::BeingDeleted)), "{after:?}");
    let [ended, running, foreign, waiting, delete] = operations.map(|operation| operation.id);
    home.store.operation_end(ended, &OperationEnd::Done, at(2)).await.unwrap();
    home.store.operation_progress(running, Progress::Accepted, at(2)).await.unwrap();

    let canceled = home.store.operations_cancel_before(delete, one.id, at(3)).await.unwrap();
    assert_eq!(canceled, vec![running, waiting]);
    assert_eq!(home.store.operations_cancel_before(delete, one.id, at(4)).await.unwrap(), vec![]);
    let open: Vec<OperationId> = home.store.operations_open().await.unwrap().iter().map(|o| o.id).collect();
    assert_eq!(open, vec![foreign, delete]);
    let end = home.store.operation_by_id(waiting).await.unwrap().unwrap().end;
    assert_eq!(end, Some(OperationEnd::Canceled(None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_with_one_key_make_one_operation() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let mut requests = JoinSet::new();
    for _ in 0..200 {
        let (store, operation) = (home.store.clone(), operation(&agent, OperationKind::Stop));
        requests.spawn(async move { store.operation_accept(&operation, Some(&key(1))).await.unwrap() });
    }
    let answers = requests.join_all().await;
    let open = home.store.operations_open().await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == Accepted::New).count(), 1);
    let repeated = Accepted::Repeated(open[0].clone());
    assert_eq!(answers.iter().filter(|answer| **answer == repeated).count(), 199);
}

#[tokio::test]
async fn a_key_means_the_same_request_of_the_same_caller_and_tool() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let accept = async |key: &RequestKey| {
        home.store.operation_accept(&operation(&agent, OperationKind::Stop), Some(key)).await
    };
    assert_eq!(accept(&key(1)).await.unwrap(), Accepted::New);
    let reused = accept(&key(2)).await;
    assert!(matches!(reused, Err(StoreError::KeyReused)), "{reused:?}");
    assert_eq!(accept(&RequestKey { principal: "other".into(), ..key(2) }).await.unwrap(), Accepted::New);
    assert_eq!(accept(&RequestKey { tool: "start_agent".into(), ..key(2) }).await.unwrap(), Accepted::New);
    assert_eq!(home.store.operations_open().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_repeated_create_finds_the_first_and_makes_nothing() {
    let home = Home::new().await;
    let create = async |agent: &Agent, fingerprint| {
        let operation = operation(agent, OperationKind::Create);
        let first_task = given(agent, "first", 1);
        (
            operation.clone(),
            home.store.agent_create(agent, &operation, Some(&first_task), Some(&key(fingerprint))).await,
        )
    };
    let (first, accepted) = create(&agent("one"), 1).await;
    assert_eq!(accepted.unwrap(), Accepted::New);
    let (_, repeated) = create(&agent("one"), 1).await;
    assert_eq!(repeated.unwrap(), Accepted::Repeated(first.clone()));
    let (_, reused) = create(&agent("two"), 2).await;
    assert!(matches!(reused, Err(StoreError::KeyReused)), "{reused:?}");
    assert_eq!(home.store.operations_open().await.unwrap(), vec![first]);
    assert_eq!(home.store.revision().await.unwrap(), 1);
}

#[tokio::test]
async fn pruned_keys_can_be_used_again() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let accept = async || {
        let operation = operation(&agent, OperationKind::Stop);
        home.store.operation_accept(&operation, Some(&key(1))).await.unwrap()
    };
    assert_eq!(accept().await, Accepted::New);
    assert_eq!(home.store.request_keys_prune(at(1)).await.unwrap(), 0, "made at that very moment: kept");
    assert_eq!(home.store.request_keys_prune(at(2)).await.unwrap(), 1);
    assert_eq!(accept().await, Accepted::New);
}
