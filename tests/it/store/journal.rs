//! The journal: every entry once, pages as a plain sorted list would give them, tasks that only move forward.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use fleet_mcp::domain::agent::Agent;
use fleet_mcp::domain::history::{HistoryEntry, HistoryKind, Report};
use fleet_mcp::domain::id::TaskId;
use fleet_mcp::domain::task::{Task, WhenBusy};
use fleet_mcp::domain::task_order::Admission;
use fleet_mcp::store::{CancelTarget, HistoryPage};
use proptest::prelude::*;
use uuid::Uuid;

use super::{Home, at, given, page, report};

const QUEUE: Admission = Admission { when_busy: WhenBusy::Queue, is_starting: false };
/// Spreads small numbers over the whole width, so that the order of ids is compared from their first byte on.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

#[tokio::test]
async fn an_entry_is_recorded_once_and_read_back_whole() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let (task, report) = (given(&agent, "do it", 1), report(&agent, "doing it\nnow", 2));
    home.store.task_accept(&task, QUEUE, None).await.unwrap();
    let reports = [report.clone(), report.clone()];
    assert_eq!(home.store.journal_add(&reports).await.unwrap(), 1);
    assert_eq!(home.store.journal_add(&reports).await.unwrap(), 0);
    let (task, report) = (task.history(), HistoryEntry::Report(report));

    let all = home.store.history_page(agent.id, None, page(1, 20)).await.unwrap().page;
    assert_eq!((all.items, all.total_count), (vec![report.clone(), task.clone()], 2));
    for (kind, expected) in [(HistoryKind::Task, task), (HistoryKind::Report, report)] {
        let some = home.store.history_page(agent.id, Some(kind), page(1, 20)).await.unwrap().page;
        assert_eq!((some.items, some.total_count), (vec![expected], 1));
    }
    assert_eq!(home.store.integrity().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn batch_with_an_unknown_agent_is_rejected_as_a_whole() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let stranger = super::agent("stranger");
    let entries = [report(&agent, "good", 1), report(&stranger, "bad", 1)];
    assert!(home.store.journal_add(&entries).await.is_err());
    assert_eq!(home.store.history_page(agent.id, None, page(1, 20)).await.unwrap().page.total_count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_shows_each_task_in_the_state_of_its_last_move() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let is_over = AtomicBool::new(false);
    let moving = async {
        for number in 0..200 {
            let task = given(&agent, "do it", number);
            home.store.task_accept(&task, QUEUE, None).await.unwrap();
            home.store.tasks_cancel(agent.id, CancelTarget::All, false, at(number)).await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let reading = async {
        while !is_over.load(Ordering::Relaxed) {
            let HistoryPage { page, moves, .. } =
                home.store.history_page(agent.id, None, page(1, 20)).await.unwrap();
            for entry in &page.items {
                let last = moves[&TaskId(entry.id())].last().unwrap();
                assert_eq!(entry.state(), last.state.word());
            }
        }
    };
    tokio::join!(moving, reading);
}

/// Kind, time and id of an entry; few values each, over three days, so that ties are common.
fn entries() -> impl Strategy<Value = Vec<(bool, i64, u128)>> {
    prop::collection::vec((any::<bool>(), 0i64..8, 0u128..60), 0..40)
}

impl Home {
    /// Adds an entry that is not known yet. A task is canceled at once, since what is open comes before the next one.
    async fn add(&self, agent: &Agent, (is_task, second, id): (bool, i64, u128)) -> HistoryEntry {
        let id = Uuid::from_u128(id.wrapping_mul(SPREAD));
        let second = (second - 2) * 30_000;
        if !is_task {
            let report = Report { id, ..report(agent, "model", second) };
            assert_eq!(self.store.journal_add(std::slice::from_ref(&report)).await.unwrap(), 1);
            return HistoryEntry::Report(report);
        }
        let task = Task { id: TaskId(id), ..given(agent, "model", second) };
        self.store.task_accept(&task, QUEUE, None).await.unwrap();
        self.store.tasks_cancel(agent.id, CancelTarget::All, false, at(second)).await.unwrap();
        self.store.task_by_id(task.id).await.unwrap().unwrap().history()
    }
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
        let id = Uuid::from_u128(drawn.2.wrapping_mul(SPREAD));
        if let Some(known) = model.get(&id) {
            // The second one is not taken, also when it says something else.
            let again = Report { id, ..report(&agent, "model", 3) };
            assert_eq!(home.store.journal_add(&[again]).await.unwrap(), 0, "{known:?}");
        } else {
            model.insert(id, home.add(&agent, *drawn).await);
        }
        assert_eq!(home.store.journal_add(&[report(&other, "noise", 3)]).await.unwrap(), 1);
    }
    for kind in [None, Some(HistoryKind::Task), Some(HistoryKind::Report)] {
        let mut all: Vec<_> =
            model.values().filter(|e| kind.is_none_or(|kind| kind == e.kind())).cloned().collect();
        all.sort_by_key(|entry| std::cmp::Reverse((entry.line().created_at, entry.id())));
        for number in 1..=(all.len() as i64 / size + 2) {
            let request = page(number, size);
            let found = home.store.history_page(agent.id, kind, request).await.unwrap().page;
            assert_eq!(found, request.of(&all));
        }
    }
    assert_eq!(home.store.integrity().await.unwrap(), Vec::<String>::new());
}
