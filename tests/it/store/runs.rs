//! Runs: read back as written, ended once, and their output by pages from wherever it is asked.

use std::time::Duration;

use fleet_mcp::domain::engine_word::EngineWord;
use fleet_mcp::domain::id::RunId;
use fleet_mcp::domain::run::{
    CancelCause, EngineOutput, EngineRun, KEPT_OUTPUT, Run, RunCancel, RunChunk, RunEnd, RunOutput, RunState,
    RunStream,
};
use fleet_mcp::domain::usage::{Figures, Spender};
use fleet_mcp::store::StoreError;

use super::{Home, at};

async fn accepted(home: &Home) -> Run {
    let run = Run {
        id: RunId::fresh(),
        agent_id: home.agent(&format!("agent-{}", at(0).timestamp())).await.id,
        generation: 3,
        purpose: "write tests".into(),
        argv: vec!["sh".into(), "-c".into(), "echo \"ü\"\n".into()],
        container: Some("dev".into()),
        timeout: Duration::from_millis(1_500),
        state: RunState::Accepted,
        stdout: 0,
        stderr: 0,
        cancel: None,
        engine: None,
        created_at: at(1),
        is_cleared: false,
    };
    home.store.run_accept(&run).await.unwrap();
    run
}

fn chunk(stream: RunStream, offset: u64, bytes: &[u8]) -> RunChunk {
    RunChunk { stream, offset, bytes: bytes.to_vec() }
}

async fn known(home: &Home, run: &Run) -> Run {
    home.store.run_by_id(run.id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_run_moves_on_to_its_end_and_never_back() {
    let home = Home::new().await;
    let run = accepted(&home).await;
    assert_eq!(known(&home, &run).await, run);
    home.store.run_started(run.id).await.unwrap();
    home.store.run_cleared(run.id).await.unwrap();
    let asked = |second, cause| RunCancel { at: at(second), cause };
    let first = asked(5, CancelCause::Budget);
    assert!(home.store.run_ask_cancel(run.id, first).await.unwrap());
    assert!(home.store.run_ask_cancel(run.id, asked(6, CancelCause::Request)).await.unwrap());
    let going = Run { state: RunState::Running, cancel: Some(first), ..run.clone() };
    assert_eq!(home.store.runs_open().await.unwrap(), std::slice::from_ref(&going));

    assert!(home.store.run_end(run.id, &RunEnd::Exited { code: -3 }, at(9)).await.unwrap());
    assert!(!home.store.run_end(run.id, &RunEnd::Canceled, at(10)).await.unwrap());
    assert!(!home.store.run_ask_cancel(run.id, asked(11, CancelCause::Request)).await.unwrap());
    home.store.run_started(run.id).await.unwrap();
    let state = RunState::Ended { end: RunEnd::Exited { code: -3 }, at: at(9) };
    let ended = Run { state, ..going };
    let home = home.reopened().await;
    assert_eq!(home.store.runs_open().await.unwrap(), std::slice::from_ref(&ended));
    home.store.run_cleared(run.id).await.unwrap();
    assert_eq!(home.store.runs_open().await.unwrap(), []);
    let cleared = Run { is_cleared: true, ..ended };
    assert_eq!(home.store.run_by_id(run.id).await.unwrap(), Some(cleared));
}

#[tokio::test]
async fn how_an_engine_is_read_is_kept_with_its_run() {
    let home = Home::new().await;
    let engine = EngineRun {
        engine: EngineWord::Claude,
        output: EngineOutput::Text,
        spender: Spender::Member,
        model: Some("opus".to_owned()),
        conversation: Some("c-1".to_owned()),
        before: Figures::reported(7, 3, Some(0.25)),
    };
    let run = Run { id: RunId::fresh(), engine: Some(engine), ..accepted(&home).await };
    home.store.run_accept(&run).await.unwrap();
    assert_eq!(known(&home, &run).await, run);
}

#[tokio::test]
async fn a_run_that_contradicts_its_end_or_has_an_unknown_engine_is_refused() {
    let home = Home::new().await;
    let run = accepted(&home).await;
    let cases = [
        ("UPDATE runs SET state = 'running', ended_at = 1", "unexpected value 'running'"),
        ("UPDATE runs SET state = 'exited', code = 0, ended_at = NULL", "unexpected value 'exited'"),
        ("UPDATE runs SET state = 'accepted', engine = 'clade'", "unexpected value 'clade'"),
    ];
    for (sql, reason) in cases {
        home.tamper(sql).await;
        let refused = home.store.run_by_id(run.id).await.unwrap_err();
        assert!(format!("{refused:?}").contains(reason), "{refused:?}");
    }
    let chat = "INSERT INTO chats (id, principal, agent_id, engine, used_at) \
                SELECT 'c-1', 'ann', id, 'clade', 1 FROM agents";
    home.tamper(chat).await;
    let refused = home.store.chat_by_id("c-1").await.unwrap_err();
    assert!(format!("{refused:?}").contains("unexpected value 'clade'"), "{refused:?}");
}

#[tokio::test]
async fn every_end_is_read_back() {
    let home = Home::new().await;
    let run = accepted(&home).await;
    let ends = [
        RunEnd::Exited { code: 0 },
        RunEnd::Signaled { signal: 9 },
        RunEnd::TimedOut,
        RunEnd::Canceled,
        RunEnd::OverBudget,
        RunEnd::Failed { reason: "no room".into() },
        RunEnd::Lost { reason: "gone".into() },
    ];
    for end in ends {
        let again = Run { id: RunId::fresh(), ..run.clone() };
        home.store.run_accept(&again).await.unwrap();
        home.store.run_end(again.id, &end, at(2)).await.unwrap();
        assert_eq!(known(&home, &again).await.state, RunState::Ended { end, at: at(2) });
    }
}

#[tokio::test]
async fn output_is_added_once_and_read_from_anywhere() {
    let home = Home::new().await;
    let run = accepted(&home).await;
    let long: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let first = [chunk(RunStream::Stdout, 0, &long), chunk(RunStream::Stderr, 0, b"oops")];
    home.store.run_append(run.id, &first).await.unwrap();
    // What is known already, or does not follow, changes nothing.
    let wrong = [chunk(RunStream::Stdout, 0, b"again"), chunk(RunStream::Stderr, 9, b"gap")];
    home.store.run_append(run.id, &wrong).await.unwrap();
    home.store.run_append(run.id, &[chunk(RunStream::Stdout, 200_000, b"end")]).await.unwrap();
    let page = async |offset, limit| {
        home.store.run_output(run.id, RunStream::Stdout, offset, limit).await.unwrap().bytes
    };
    assert!(page(0, 1 << 20).await == [long.as_slice(), b"end"].concat());
    assert!(page(65_535, 70_000).await == long[65_535..135_535]);
    assert_eq!(page(200_001, 100).await, b"nd");
    assert_eq!(page(200_003, 100).await, b"");
    let expected = RunOutput { offset: 1, bytes: b"o".to_vec(), kept: 4, written: 4, removed_at: None };
    assert_eq!(home.store.run_output(run.id, RunStream::Stderr, 1, 1).await.unwrap(), expected);

    home.store.run_end(run.id, &RunEnd::TimedOut, at(2)).await.unwrap();
    home.store.run_append(run.id, &[chunk(RunStream::Stderr, 4, b"late")]).await.unwrap();
    assert_eq!(known(&home, &run).await.stderr, 4);
    let missing = home.store.run_output(RunId::fresh(), RunStream::Stderr, 0, 1).await.unwrap_err();
    assert!(matches!(missing, StoreError::Missing("run")), "{missing}");
}

#[tokio::test]
async fn output_beyond_what_is_kept_is_only_counted() {
    let home = Home::new().await;
    let run = accepted(&home).await;
    let half = vec![7; 6 << 20];
    for n in 0..2 {
        let offset = n * half.len() as u64;
        home.store.run_append(run.id, &[chunk(RunStream::Stdout, offset, &half)]).await.unwrap();
    }
    let tail = home.store.run_output(run.id, RunStream::Stdout, KEPT_OUTPUT - 1, 10).await.unwrap();
    let (offset, kept) = (KEPT_OUTPUT - 1, KEPT_OUTPUT);
    let expected = RunOutput { offset, bytes: vec![7], kept, written: 12 << 20, removed_at: None };
    assert_eq!(tail, expected);
}

#[tokio::test]
async fn outputs_of_old_runs_are_removed_a_few_at_a_time_and_the_runs_stay() {
    let home = Home::new().await;
    let first = accepted(&home).await;
    let mut old = vec![first.clone()];
    for _ in 0..8 {
        let run = Run { id: RunId::fresh(), ..first.clone() };
        home.store.run_accept(&run).await.unwrap();
        old.push(run);
    }
    let (running, young) = (old.pop().unwrap(), old.pop().unwrap());
    for run in old.iter().chain([&running, &young]) {
        home.store
            .run_append(run.id, &[chunk(RunStream::Stdout, 0, b"long"), chunk(RunStream::Stderr, 0, b"x")])
            .await
            .unwrap();
    }
    for (second, run) in (1..).zip(&old) {
        home.store.run_end(run.id, &RunEnd::Exited { code: 0 }, at(second)).await.unwrap();
    }
    home.store.run_end(young.id, &RunEnd::TimedOut, at(100)).await.unwrap();
    let before = known(&home, &old[0]).await;
    let prune = async || home.store.run_outputs_prune(at(100), at(200)).await.unwrap();
    assert_eq!([prune().await, prune().await, prune().await], [5, 2, 0]);

    let output = async |run: &Run| home.store.run_output(run.id, RunStream::Stdout, 0, 10).await.unwrap();
    let gone = RunOutput { offset: 0, bytes: Vec::new(), kept: 0, written: 4, removed_at: Some(at(200)) };
    for run in &old {
        assert_eq!(output(run).await, gone);
    }
    let there = RunOutput { offset: 0, bytes: b"long".to_vec(), kept: 4, written: 4, removed_at: None };
    assert_eq!((output(&young).await, output(&running).await), (there.clone(), there));
    assert_eq!(known(&home, &old[0]).await, before);
}
