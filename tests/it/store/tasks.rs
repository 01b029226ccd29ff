//! Tasks: one of two callers wins, states only move forward, and every move is on record.

use chrono::TimeDelta;
use fleet_mcp::domain::history::Report;
use fleet_mcp::domain::task::{
    Cancel, CancelCause, Channel, Claim, ClaimKind, Delivery, EndState, Escalation, Task, TaskEnd, TaskMove,
    TaskProgress, TaskStage, TaskState, TaskWork, UnassignedReport, Verified, WhenBusy, Work,
};
use fleet_mcp::domain::task_order::Admission;
use fleet_mcp::domain::task_plan::Redelivery;
use fleet_mcp::domain::words::AppState;
use fleet_mcp::store::{
    CancelTaken, CancelTarget, LatestTasks, ReportEffect, RequestKey, StoreError, TaskAccepted,
};

use super::{Home, at, given, missing, page, report};

const QUEUE: Admission = Admission { when_busy: WhenBusy::Queue, is_starting: false };
const REJECT: Admission = Admission { when_busy: WhenBusy::Reject, is_starting: false };
const INTERRUPT: Admission = Admission { when_busy: WhenBusy::Interrupt, is_starting: false };

impl Home {
    async fn queued(&self, task: &Task) {
        let accepted = self.store.task_accept(task, QUEUE, None).await.unwrap();
        assert_eq!((&accepted.task, accepted.n_interrupted), (task, 0));
    }

    async fn moved(&self, task: &Task, to: TaskState, second: i64) -> Task {
        let moved = Task { stage: stage(to, task.stage.work(), None), ..task.clone() };
        assert!(self.store.task_save(&moved, &[(to, "so")], at(second)).await.unwrap(), "{to}");
        moved
    }
}

/// A task in this state with what it had before.
fn stage(state: TaskState, work: Work, outcome: Option<String>) -> TaskStage {
    let nothing_seen = None;
    TaskStage::of(TaskProgress::of(state, outcome, false).unwrap(), work, nothing_seen).unwrap()
}

#[tokio::test]
async fn of_two_tasks_at_once_one_wins_and_the_other_finds_the_agent_busy() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let (a, b) = (given(&agent, "a", 1), given(&agent, "b", 1));
    let (first, second) =
        tokio::join!(home.store.task_accept(&a, REJECT, None), home.store.task_accept(&b, REJECT, None));
    let outcomes = [first.is_ok(), second.is_ok()];
    assert_eq!(outcomes.iter().filter(|won| **won).count(), 1);
    let lost = [first, second].into_iter().find_map(Result::err).unwrap();
    assert!(matches!(lost, StoreError::Busy), "{lost}");
    assert_eq!(home.store.tasks_queued(9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_spec_on_its_way_into_a_starting_workspace_is_no_reason_to_refuse() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let mut spec = given(&agent, "spec", 1);
    spec.work.origin = fleet_mcp::domain::task::TaskOrigin::Spec;
    home.queued(&spec).await;
    let starting = Admission { when_busy: WhenBusy::Reject, is_starting: true };
    assert!(home.store.task_accept(&given(&agent, "held", 2), starting, None).await.is_ok());
    let refused = home.store.task_accept(&given(&agent, "too much", 3), starting, None).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
}

#[tokio::test]
async fn the_same_key_is_the_same_task_and_other_arguments_are_refused() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let key = |fingerprint| RequestKey {
        principal: "ann".into(),
        tool: "start_agent_task".into(),
        key: "k".into(),
        fingerprint: [fingerprint; 32],
    };
    let first = given(&agent, "a", 1);
    home.store.task_accept(&first, REJECT, Some(&key(1))).await.unwrap();
    let again = home.store.task_accept(&given(&agent, "a", 2), REJECT, Some(&key(1))).await.unwrap();
    assert_eq!(again, TaskAccepted { task: first, n_before: 0, n_interrupted: 0 });
    let other = home.store.task_accept(&given(&agent, "b", 2), REJECT, Some(&key(2))).await;
    assert!(matches!(other, Err(StoreError::KeyReused)), "{other:?}");
    assert_eq!(home.store.request_keys_prune(at(9)).await.unwrap(), 1);
}

#[tokio::test]
async fn tasks_move_forward_only_and_every_move_is_on_record() {
    for from in TaskState::ALL {
        for to in TaskState::ALL {
            let home = Home::new().await;
            let agent = home.agent("one").await;
            let task = given(&agent, "move", 1);
            home.queued(&task).await;
            let task = if *from == TaskState::Queued { task } else { home.moved(&task, *from, 2).await };
            let outcome = to.is_ended().then(|| "so".to_owned());
            let next = Task { stage: stage(*to, Work::NONE, outcome), ..task.clone() };
            let is_saved = home.store.task_save(&next, &[(*to, "so")], at(3)).await.unwrap();
            let is_legal = from.may_become(*to) || (from == to && !from.is_ended());
            assert_eq!(is_saved, is_legal, "{from} -> {to}");
            let expected = if is_saved { next } else { task };
            assert_eq!(
                home.store.task_by_id(expected.id).await.unwrap(),
                Some(expected.clone()),
                "{from} -> {to}"
            );
            let moves = home.store.task_moves(&[expected.id]).await.unwrap().remove(&expected.id).unwrap();
            let mut states = vec![TaskState::Queued];
            states.extend((*from != TaskState::Queued).then_some(*from));
            states.extend(is_saved.then_some(*to));
            assert_eq!(moves.iter().map(|moved| moved.state).collect::<Vec<_>>(), states, "{from} -> {to}");
        }
    }
}

#[tokio::test]
async fn a_task_is_read_back_as_it_was_written_but_for_what_others_write() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let mut task = given(&agent, "all of it", 1);
    task.work.timeout = Some(TimeDelta::seconds(90));
    task.work.is_urgent = true;
    home.queued(&task).await;
    let claim = Claim { kind: ClaimKind::Complete, text: "did it".into(), at: at(4) };
    task.work.attempt = 2;
    task.begin_run(1, Some(at(2)));
    home.moved(&task, TaskState::Working, 2).await;
    home.store.tasks_cancel(agent.id, CancelTarget::Current, true, at(3)).await.unwrap();
    let effect = ReportEffect::Claim(task.id, &claim);
    home.store.report_add(&report(&agent, "did it", 4), effect).await.unwrap();
    task.entry.generation = 7;
    let delivery = Delivery::Delivered { channel: Channel::AgentApi, at: at(2), base: Some(5) };
    let work = Work { delivery, since: Some(at(2)) };
    task.stage = TaskStage::Working(work);
    task.work = TaskWork {
        attempt: 2,
        is_continued: true,
        worked: TimeDelta::seconds(3),
        last_sign: Some(at(3)),
        silent_since: Some(at(4)),
        parked_until: Some(at(5)),
        reached: Escalation::Interrupt,
        head_before: Some("abc".into()),
        ..task.work
    };
    assert!(home.store.task_save(&task, &[(TaskState::Working, "parked")], at(5)).await.unwrap());
    let mut expected = Task {
        work: TaskWork {
            cancel: Some(Cancel { cause: CancelCause::Request, at: at(3), may_stop: true }),
            claim: Some(claim),
            ..task.work.clone()
        },
        ..task.clone()
    };
    assert_eq!(home.store.task_by_id(task.id).await.unwrap(), Some(expected.clone()));
    let verified =
        Some(Verified { commit: Some("def".into()), is_new: Some(true), is_pushed: false, is_clean: true });
    let end = TaskEnd { state: EndState::Done, outcome: Some("so".into()), needs_answer: true };
    expected.stage = TaskStage::Ended { end, verified, work };
    assert!(home.store.task_save(&expected, &[(TaskState::Done, "over")], at(6)).await.unwrap());
    assert_eq!(home.store.task_by_id(task.id).await.unwrap(), Some(expected));
    let moves = home.store.task_moves(&[task.id]).await.unwrap().remove(&task.id).unwrap();
    let moved = |state, reason: &str, generation, second| TaskMove {
        task: task.id,
        state,
        reason: reason.into(),
        generation,
        at: at(second),
    };
    let expected = [
        moved(TaskState::Queued, "accepted", 1, 1),
        moved(TaskState::Working, "so", 1, 2),
        moved(TaskState::Working, "parked", 7, 5),
        moved(TaskState::Done, "over", 7, 6),
    ];
    assert_eq!(moves, expected);
}

#[tokio::test]
async fn a_claim_is_of_the_attempt_in_hand_and_gone_with_it_or_with_another_word() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let task = given(&agent, "all of it", 1);
    home.queued(&task).await;
    let claim = Claim { kind: ClaimKind::Complete, text: "did it".into(), at: at(4) };
    let claimed = async || home.store.task_by_id(task.id).await.unwrap().unwrap().work.claim;
    let say = async |effect| home.store.report_add(&report(&agent, "so", 4), effect).await.unwrap();
    say(ReportEffect::Claim(task.id, &claim)).await;
    assert_eq!(claimed().await, None, "no run works on it");
    let mut begun = task.clone();
    begun.begin_run(1, Some(at(2)));
    let mut begun = home.moved(&begun, TaskState::Working, 2).await;
    say(ReportEffect::Claim(task.id, &claim)).await;
    assert_eq!(claimed().await, Some(claim.clone()));
    say(ReportEffect::Continues(task.id)).await;
    assert_eq!(claimed().await, None);
    say(ReportEffect::Claim(task.id, &claim)).await;
    begun.resume(Redelivery::FullText);
    assert!(home.store.task_save(&begun, &[(TaskState::Working, "again")], at(5)).await.unwrap());
    assert_eq!(claimed().await, None);
}

#[tokio::test]
async fn a_report_on_a_task_that_has_ended_meanwhile_is_the_agents_own_word() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let mut task = given(&agent, "all of it", 1);
    home.queued(&task).await;
    task.begin_run(1, Some(at(2)));
    let mut task = home.moved(&task, TaskState::Working, 2).await;
    let no_outcome = None;
    task.end_run(EndState::Done, no_outcome);
    assert!(home.store.task_save(&task, &[(TaskState::Done, "it said so")], at(3)).await.unwrap());
    let late = Report { task_id: Some(task.id), ..report(&agent, "which one?", 4) };
    let claim = Claim { kind: ClaimKind::Question, text: "which one?".into(), at: at(4) };
    let added = home.store.report_add(&late, ReportEffect::Claim(task.id, &claim)).await.unwrap();
    assert_eq!(added, Report { task_id: None, ..late });
    let newest = home.store.tasks_latest_of(agent.id).await.unwrap().report;
    assert_eq!(newest.map(|report| report.text).as_deref(), Some("which one?"));
    assert_eq!(home.store.task_by_id(task.id).await.unwrap().unwrap().work.claim, None);
}

#[tokio::test]
async fn an_agents_newest_report_counts_in_its_start_until_one_of_its_tasks_moves() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let newest = async || home.store.tasks_latest_of(agent.id).await.unwrap().report;
    let add = async |text: &str, second| {
        let report = Report { needs_answer: true, ..report(&agent, text, second) };
        home.store.report_add(&report, ReportEffect::Unassigned).await.unwrap();
        home.store.tasks_latest_of(agent.id).await.unwrap().stamp()
    };
    let kept = |text: &str| {
        let state = AppState::Working;
        Some(UnassignedReport {
            state,
            text: text.into(),
            is_question: true,
            generation: 3,
            number: 2,
            at: at(4),
        })
    };
    let first = add("which?", 9).await;
    assert!(add("which one?", 4).await > first, "a later report is newer, at any time of the clock");
    assert_eq!(newest().await, kept("which one?"));
    let latest = LatestTasks { report: kept("which one?"), ..LatestTasks::default() };
    assert_eq!((latest.seen(3).report, latest.seen(4).report), (latest.report.as_ref(), None));
    assert_eq!(home.store.tasks_latest().await.unwrap(), vec![(agent.id, latest)]);
    home.queued(&given(&agent, "this one", 5)).await;
    assert_eq!(newest().await, None, "the answer");
}

#[tokio::test]
async fn tasks_are_done_in_the_order_accepted_not_by_the_clock() {
    let home = Home::new().await;
    let (agent, other) = (home.agent("one").await, home.agent("two").await);
    let b = given(&agent, "b", 2);
    home.queued(&b).await;
    let mut a = given(&agent, "a", 1);
    let accepted = home.store.task_accept(&a, QUEUE, None).await.unwrap();
    a.entry.created_at = at(2) + TimeDelta::microseconds(1);
    assert_eq!(accepted, TaskAccepted { task: a.clone(), n_before: 1, n_interrupted: 0 });
    let done = home.moved(&b, TaskState::Done, 4).await;
    let latest = home.store.tasks_latest_of(agent.id).await.unwrap();
    let version = latest.version;
    assert!(version > 0);
    assert_eq!(latest, LatestTasks { open: Some(a), running: None, last: Some(done), report: None, version });
    assert_eq!(home.store.tasks_latest().await.unwrap(), vec![(agent.id, latest)]);
    assert_eq!(home.store.tasks_latest_of(other.id).await.unwrap(), LatestTasks::default());
}

#[tokio::test]
async fn an_interrupt_ends_what_waits_marks_what_is_begun_and_counts_both() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let (begun, waiting, urgent) = (given(&agent, "a", 1), given(&agent, "b", 2), given(&agent, "c", 3));
    for task in [&begun, &waiting] {
        home.queued(task).await;
    }
    let begun = home.moved(&begun, TaskState::Working, 4).await;
    let key = RequestKey {
        principal: "ann".into(),
        tool: "start_agent_task".into(),
        key: "k".into(),
        fingerprint: [1; 32],
    };
    let accepted = home.store.task_accept(&urgent, INTERRUPT, Some(&key)).await.unwrap();
    assert_eq!(accepted, TaskAccepted { task: urgent.clone(), n_before: 0, n_interrupted: 2 });
    let cancel = Some(Cancel { cause: CancelCause::Interrupt(urgent.id), at: at(3), may_stop: false });
    let begun = home.store.task_by_id(begun.id).await.unwrap().unwrap();
    assert_eq!((begun.state(), begun.work.cancel), (TaskState::Working, cancel));
    let waiting = home.store.task_by_id(waiting.id).await.unwrap().unwrap();
    let reason = format!("interrupted by task {}; it had not been delivered yet", urgent.id);
    assert_eq!((waiting.state(), waiting.outcome()), (TaskState::Canceled, Some(reason.as_str())));
    let open = home.store.tasks_latest_of(agent.id).await.unwrap().open;
    assert_eq!(open.map(|task| task.id), Some(begun.id), "it ends first");
    let again = home.store.task_accept(&given(&agent, "c", 9), INTERRUPT, Some(&key)).await.unwrap();
    assert_eq!(again, accepted, "a repeat counts the same");
}

#[tokio::test]
async fn a_cancel_ends_what_waits_and_marks_what_is_begun() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let tasks = [given(&agent, "a", 1), given(&agent, "b", 2), given(&agent, "c", 3)];
    for task in &tasks {
        home.queued(task).await;
    }
    let [a, b, c] = &tasks;
    home.moved(a, TaskState::Working, 4).await;
    let cancel = async |which| home.store.tasks_cancel(agent.id, which, false, at(5)).await.unwrap();
    assert_eq!(cancel(CancelTarget::Current).await, CancelTaken { ended: vec![], in_hand: Some(a.id) });
    assert_eq!(cancel(CancelTarget::All).await, CancelTaken { ended: vec![b.id, c.id], in_hand: Some(a.id) });
    let states = async |task: &Task| home.store.task_by_id(task.id).await.unwrap().unwrap().state();
    assert_eq!(
        [states(a).await, states(b).await, states(c).await],
        [TaskState::Working, TaskState::Canceled, TaskState::Canceled]
    );
}

#[tokio::test]
async fn a_cancel_behind_an_interrupt_is_meant_for_the_task_that_interrupts() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let [begun, urgent] = [given(&agent, "a", 1), given(&agent, "b", 3)];
    home.queued(&begun).await;
    home.moved(&begun, TaskState::Working, 2).await;
    home.store.task_accept(&urgent, INTERRUPT, None).await.unwrap();
    let cancel =
        async || home.store.tasks_cancel(agent.id, CancelTarget::Current, false, at(5)).await.unwrap();
    assert_eq!(cancel().await, CancelTaken { ended: vec![urgent.id], in_hand: None });
    assert_eq!(cancel().await, CancelTaken { ended: vec![], in_hand: Some(begun.id) });
}

#[tokio::test]
async fn a_deleted_agent_leaves_no_task_open_and_its_history_stays() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let task = given(&agent, "a", 1);
    home.queued(&task).await;
    home.store.agent_delete(agent.id, at(2)).await.unwrap();
    let history = home.store.history_page(agent.id, None, page(1, 20)).await.unwrap().page.items;
    let shown: Vec<_> = history.iter().map(|entry| (entry.state(), entry.outcome())).collect();
    assert_eq!(shown, [("canceled", Some("the agent was deleted"))]);
    let late = home.store.task_accept(&given(&agent, "b", 3), QUEUE, None).await;
    assert!(matches!(late, Err(StoreError::Missing("agent"))), "{late:?}");
}

#[tokio::test]
async fn reports_and_unknown_ids_are_no_tasks_to_move() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let stranger = given(&agent, "never accepted", 1);
    assert_eq!(missing(home.store.task_save(&stranger, &[], at(2)).await), "task");
}

#[tokio::test]
async fn the_log_is_paged_newest_first_grows_in_place_and_is_bounded() {
    use fleet_mcp::domain::log::{LogEntry, LogKind};
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let entry = |number: i64, content: &str| LogEntry {
        conversation: 0,
        number,
        kind: if number % 2 == 0 { LogKind::Input } else { LogKind::Output },
        content: content.to_owned(),
        time: at(number),
    };
    home.store.log_add(agent.id, &[entry(0, "do it"), entry(1, "doing")]).await.unwrap();
    home.store.log_add(agent.id, &[entry(0, "do it"), entry(1, "doing it")]).await.unwrap();
    let shown = home.store.log_page(agent.id, page(1, 1)).await.unwrap();
    assert_eq!((shown.items, shown.total_count), (vec![entry(1, "doing it")], 2));
    let many: Vec<LogEntry> = (2..1_010).map(|number| entry(number, "x")).collect();
    home.store.log_add(agent.id, &many).await.unwrap();
    let last = home.store.log_page(agent.id, page(10, 100)).await.unwrap();
    assert_eq!((last.items.last().map(|entry| entry.number), last.total_count), (Some(10), 1_000));
}

#[tokio::test]
async fn a_conversation_that_begins_anew_takes_nothing_from_the_one_before() {
    use fleet_mcp::domain::log::{LogEntry, LogKind};
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let told = |conversation: i64, second: i64, text: &str| {
        let line =
            |number, kind, content: String, time| LogEntry { conversation, number, kind, content, time };
        let asked = line(0, LogKind::Input, text.to_owned(), at(second));
        [asked, line(1, LogKind::Output, format!("{text}, done"), at(second + 1))]
    };
    for (second, text) in [(1, "first"), (1, "first"), (11, "second"), (21, "third"), (21, "third")] {
        home.store.log_add(agent.id, &told(0, second, text)).await.unwrap();
    }
    let kept = home.store.log_page(agent.id, page(1, 100)).await.unwrap().items;
    let expected = [told(-1, 1, "first"), told(-2, 11, "second"), told(0, 21, "third")];
    assert_eq!(kept.into_iter().rev().collect::<Vec<_>>(), expected.concat());
}

#[tokio::test]
async fn a_row_that_contradicts_itself_is_refused_and_never_taken_for_a_failure() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let task = given(&agent, "a", 1);
    home.queued(&task).await;
    let cases = [
        ("UPDATE journal SET state = 'dreaming'", "unexpected value 'dreaming'"),
        (
            "UPDATE journal SET state = 'working', outcome = 'so'",
            "unexpected value 'working with an outcome'",
        ),
        (
            "UPDATE journal SET state = 'queued', outcome = NULL; UPDATE task_deliveries SET working_since = 1",
            "unexpected value 'Unsent of a task that is queued'",
        ),
    ];
    for (sql, reason) in cases {
        home.tamper(sql).await;
        let refused = home.store.task_by_id(task.id).await.unwrap_err();
        assert!(format!("{refused:?}").contains(reason), "{refused:?}");
    }
    home.tamper("UPDATE task_deliveries SET working_since = NULL").await;
    assert_eq!(home.store.task_by_id(task.id).await.unwrap(), Some(task));
}
