//! The journal: every entry once, pages as a plain sorted list would give them, tasks that only move forward.

use std::collections::BTreeMap;

use fleet_mcp::domain::agent::Agent;
use fleet_mcp::domain::history::{HistoryEntry, HistoryKind};
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::task::TaskState;
use fleet_mcp::store::LatestTasks;
use proptest::prelude::*;
use uuid::Uuid;

use super::{Home, at, missing, page, report, task};

#[tokio::test]
async fn an_entry_is_recorded_once_and_read_back_whole() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let (task, report) = (task(&agent, "do it", 1), report(&agent, "doing it\nnow", 2));
    let entries = [task.clone(), report.clone(), report.clone()];
    assert_eq!(home.store.journal_add(&entries).await.unwrap(), 2);
    assert_eq!(home.store.journal_add(&entries).await.unwrap(), 0);

    let all = home.store.journal_page(agent.id, None, page(1, 20)).await.unwrap();
    assert_eq!((all.items, all.total_count), (vec![report.clone(), task.clone()], 2));
    for (kind, expected) in [(HistoryKind::Task, task), (HistoryKind::Report, report)] {
        let some = home.store.journal_page(agent.id, Some(kind), page(1, 20)).await.unwrap();
        assert_eq!((some.items, some.total_count), (vec![expected], 1));
    }
    assert_eq!(home.store.integrity().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_entry_of_an_unknown_agent_takes_nothing_in() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let stranger = super::agent("stranger");
    let entries = [report(&agent, "good", 1), report(&stranger, "bad", 1)];
    assert!(home.store.journal_add(&entries).await.is_err());
    assert_eq!(home.store.journal_page(agent.id, None, page(1, 20)).await.unwrap().total_count, 0);
}

#[tokio::test]
async fn tasks_move_forward_only_and_keep_their_outcome() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    for from in TaskState::ALL {
        for to in TaskState::ALL {
            let entry = HistoryEntry { state: from.word().into(), ..task(&agent, "move", 1) };
            home.store.journal_add(std::slice::from_ref(&entry)).await.unwrap();
            let moved = home.store.task_move(TaskId(entry.id), *to, Some("so"), at(2)).await.unwrap();
            assert_eq!(moved, from.may_become(*to), "{from} -> {to}");
            let state = if moved { to } else { from };
            let outcome = moved.then(|| "so".to_owned());
            let expected = HistoryEntry { state: state.word().into(), outcome, ..entry };
            let page = home.store.journal_page(agent.id, None, page(1, 100)).await.unwrap();
            assert!(page.items.contains(&expected), "{from} -> {to}");
        }
    }
}

#[tokio::test]
async fn reports_and_unknown_ids_are_no_tasks_to_move() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let report = report(&agent, "not a task", 1);
    home.store.journal_add(std::slice::from_ref(&report)).await.unwrap();
    for id in [report.id, Uuid::now_v7()] {
        let moved = home.store.task_move(TaskId(id), TaskState::Done, None, at(2)).await;
        assert_eq!(missing(moved), "task");
    }
}

#[tokio::test]
async fn the_oldest_open_and_the_last_ended_task_are_the_latest() {
    let home = Home::new().await;
    let (one, two, gone) = (home.agent("one").await, home.agent("two").await, home.agent("gone").await);
    let tasks = [task(&one, "a", 1), task(&one, "b", 2), task(&one, "c", 3), task(&one, "d", 4)];
    home.store.journal_add(&tasks).await.unwrap();
    let only_open = task(&two, "e", 1);
    home.store.journal_add(&[only_open.clone(), report(&two, "r", 9), task(&gone, "f", 1)]).await.unwrap();
    home.store.agent_delete(gone.id, at(2)).await.unwrap();
    let end = async |entry: &HistoryEntry, to, second| {
        assert!(home.store.task_move(TaskId(entry.id), to, None, at(second)).await.unwrap());
        HistoryEntry { state: to.word().into(), ..entry.clone() }
    };
    let [a, b, c, d] = tasks;
    end(&d, TaskState::Canceled, 5).await;
    let last = end(&a, TaskState::Done, 6).await;
    let open = end(&b, TaskState::Working, 7).await;

    let of_one = LatestTasks { open: Some(open), last: Some(last) };
    let of_two = LatestTasks { open: Some(only_open), last: None };
    assert_eq!(home.store.tasks_latest_of(one.id).await.unwrap(), of_one);
    assert_eq!(home.store.tasks_latest_of(two.id).await.unwrap(), of_two);
    assert_eq!(home.store.tasks_latest().await.unwrap(), vec![(one.id, of_one), (two.id, of_two)]);

    end(&b, TaskState::Failed, 8).await;
    assert_eq!(home.store.tasks_latest_of(one.id).await.unwrap().open, Some(c));
}

/// Kind, time and id of an entry; few values each, over three days, so that ties are common.
fn entries() -> impl Strategy<Value = Vec<(bool, i64, u128)>> {
    prop::collection::vec((any::<bool>(), 0i64..8, 0u128..60), 0..40)
}

fn entry(agent: &Agent, (is_task, second, id): (bool, i64, u128)) -> HistoryEntry {
    // Spread over the whole width, so that the order of ids is compared from their first byte on.
    let id = Uuid::from_u128(id.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    let second = (second - 2) * 30_000;
    let entry = if is_task { task(agent, "model", second) } else { report(agent, "model", second) };
    HistoryEntry { id, ..entry }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_what_a_sorted_list_gives(drawn in entries(), size in 1i64..12) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(pages_match_the_model(drawn, size));
    }
}

async fn pages_match_the_model(drawn: Vec<(bool, i64, u128)>, size: i64) {
    let home = Home::new().await;
    let (agent, other) = (home.agent("one").await, home.agent("two").await);
    let mut model: BTreeMap<Uuid, HistoryEntry> = BTreeMap::new();
    for drawn in &drawn {
        let entry = entry(&agent, *drawn);
        let added = home.store.journal_add(&[entry.clone(), report(&other, "noise", 3)]).await.unwrap();
        let is_new = !model.contains_key(&entry.id);
        assert_eq!(added, 1 + u64::from(is_new));
        model.entry(entry.id).or_insert(entry);
    }
    for kind in [None, Some(HistoryKind::Task), Some(HistoryKind::Report)] {
        let mut all: Vec<_> =
            model.values().filter(|e| kind.is_none_or(|kind| kind == e.kind)).cloned().collect();
        all.sort_by_key(|entry| std::cmp::Reverse((entry.created_at, entry.id)));
        for number in 1..=(all.len() as i64 / size + 2) {
            let request = page(number, size);
            let found = home.store.journal_page(agent.id, kind, request).await.unwrap();
            assert_eq!(found, request.of(&all));
        }
    }
    assert_eq!(home.store.integrity().await.unwrap(), Vec::<String>::new());
}
