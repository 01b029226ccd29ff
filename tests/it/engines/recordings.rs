//! Every recorded output of the real CLIs, and what we make of it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use fleet_mcp::engine::{ConversationUsage, Engine, EngineEvent, Exit, RunUsage, Session, Spending};

use super::{claude, codex, fresh, request};

/// The recordings of one CLI, each with the exit code its process had.
const CLAUDE: &[(&str, i32)] = &[
    ("claude-json.json", 0),
    ("claude-json-structured-output.json", 0),
    ("claude-json-error-400-prompt-too-long.json", 1),
    ("claude-json-error-401.json", 1),
    ("claude-json-error-max-budget.json", 1),
    ("claude-json-error-max-turns.json", 1),
    ("claude-mcp-stdio-wire.log", 0),
    ("claude-resume-unknown-id.stderr.txt", 1),
    ("claude-stream.jsonl", 0),
    ("claude-stream-error-529-retries.jsonl", 1),
    ("claude-stream-mcp-server-failed.jsonl", 0),
    ("claude-stream-mcp-tool-timeout.jsonl", 0),
    ("claude-stream-partial.jsonl", 0),
    ("claude-stream-permission-denied.jsonl", 0),
    ("claude-stream-recommended.jsonl", 0),
    ("claude-stream-resume-unknown-id.jsonl", 1),
    ("claude-stream-sigterm.jsonl", 143),
    ("claude-stream-tool-iserror.jsonl", 0),
];
/// Later runs of a conversation of two steps.
const CLAUDE_RESUMED: &[(&str, i32)] = &[("claude-json-resume.json", 0), ("claude-json-fork.json", 0)];
const CODEX: &[(&str, i32)] = &[
    ("codex-exec.jsonl", 0),
    ("codex-exec-elicitation.jsonl", 0),
    ("codex-exec-error-400.jsonl", 1),
    ("codex-exec-error-401-retries.jsonl", 1),
    ("codex-exec-mcp-approval-required.jsonl", 0),
    ("codex-exec-mcp-iserror.jsonl", 0),
    ("codex-exec-mcp-timeout.jsonl", 0),
    ("codex-exec-mcp-write-tool.jsonl", 0),
    ("codex-exec-recommended.jsonl", 0),
    ("codex-exec-sigint.jsonl", 1),
    ("codex-exec-sigterm.jsonl", 143),
    ("codex-exec-structured-vs-text.jsonl", 0),
    ("codex-mcp-stdio-wire.log", 0),
    ("codex-required-mcp-failed.stderr.txt", 1),
    ("codex-resume-unknown-id.stderr.txt", 1),
];
const CODEX_RESUMED: &[(&str, i32)] = &[("codex-exec-resume.jsonl", 0)];
/// Not printed, but written beside the output.
const CODEX_RECORD: &str = "codex-rollout-token-count.jsonl";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/engines")
}

fn text(file: &str) -> String {
    std::fs::read_to_string(directory().join(file)).unwrap()
}

/// What a conversation had used after two steps of the scripted model.
fn two_steps(cost_usd: Option<f64>) -> Spending {
    let input = if cost_usd.is_some() { 2000 } else { 3600 };
    let cache_write = if cost_usd.is_some() { 400 } else { 0 };
    let cache_read = if cost_usd.is_some() { 600 } else { 900 };
    let output = if cost_usd.is_some() { 84 } else { 126 };
    Spending { input, cache_write, cache_read, output, cost_usd }
}

/// Plays one recording to a reader and writes down everything that came of it.
fn played(engine: &dyn Engine, session: Session, (file, code): (&str, i32)) -> String {
    let mut reader = engine.reader(&request(session));
    let (stdout, stderr) =
        if file.contains("stderr") { (String::new(), text(file)) } else { (text(file), String::new()) };
    let events: Vec<EngineEvent> = stdout.lines().flat_map(|line| reader.line(line)).collect();
    let end = reader.end(&Exit { status: ExitStatus::from_raw(code << 8), stderr });
    let mut told = format!("{file} (exit {code})\n  {end:?}\n");
    let (mut session, mut spent) = (None, RunUsage::default());
    for event in events {
        match event {
            EngineEvent::Text(text) => writeln!(told, "  said: {text}").unwrap(),
            EngineEvent::Session(id) => session = Some(id),
            EngineEvent::Usage(newer) => spent = newer,
        }
    }
    writeln!(told, "  session {}, run {:?}", session.as_deref().unwrap_or("-"), spent.run).unwrap();
    told
}

#[test]
fn every_recording_of_claude_code_means_what_happened() {
    let first = CLAUDE.iter().map(|recorded| played(&claude(), fresh(), *recorded));
    let resumed = || Session::Resume {
        id: "earlier".to_owned(),
        spent: ConversationUsage::settled(two_steps(Some(0.0118))),
    };
    let later = CLAUDE_RESUMED.iter().map(|recorded| played(&claude(), resumed(), *recorded));
    insta::assert_snapshot!(first.chain(later).collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_recording_of_codex_means_what_happened() {
    let first = CODEX.iter().map(|recorded| played(&codex(), fresh(), *recorded));
    let resumed =
        || Session::Resume { id: "earlier".to_owned(), spent: ConversationUsage::settled(two_steps(None)) };
    let later = CODEX_RESUMED.iter().map(|recorded| played(&codex(), resumed(), *recorded));
    insta::assert_snapshot!(first.chain(later).collect::<Vec<_>>().join("\n"));
}

#[test]
fn no_recording_is_left_out() {
    let tables = [CLAUDE, CLAUDE_RESUMED, CODEX, CODEX_RESUMED].concat();
    let known: BTreeSet<String> =
        tables.iter().map(|(file, _)| (*file).to_owned()).chain([CODEX_RECORD.to_owned()]).collect();
    let entries = std::fs::read_dir(directory()).unwrap();
    let there: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(known, there);
}

/// Input and output tokens of a run each time it told them.
fn steps(events: impl Iterator<Item = EngineEvent>) -> Vec<(u64, u64, Option<String>)> {
    let spent = events.filter_map(|event| match event {
        EngineEvent::Usage(spent) => Some(spent.run),
        EngineEvent::Text(_) | EngineEvent::Session(_) => None,
    });
    let cost = |cost: f64| format!("{cost:.6}");
    spent.map(|run| (run.input_tokens, run.output_tokens, run.cost_usd.map(cost))).collect()
}

#[test]
fn claude_codes_use_is_known_while_it_runs_and_ends_as_the_cli_counts() {
    let mut reader = claude().reader(&request(fresh()));
    let recorded = text("claude-stream-partial.jsonl");
    let told = steps(recorded.lines().flat_map(|line| reader.line(line)));
    let step = |input, output, cost: &str| (input, output, Some(cost.to_owned()));
    assert_eq!(
        told,
        [
            step(1500, 1, "0.005080"),
            step(1500, 42, "0.005900"),
            step(3000, 43, "0.010980"),
            step(3000, 84, "0.011800"),
            step(3000, 84, "0.011800"),
        ]
    );
}

/// Without its parts a message tells what was read for it, and the end tells the rest.
#[test]
fn claude_codes_use_is_known_from_whole_messages_and_a_late_line_about_one_adds_nothing() {
    let recorded = text("claude-stream.jsonl");
    let lines: Vec<&str> = recorded.lines().collect();
    let (messages, end) = lines.split_at(lines.len() - 1);
    let mut reader = claude().reader(&request(fresh()));
    let told = steps(messages.iter().chain(&messages[1..2]).flat_map(|line| reader.line(line)));
    let step = |input, output, cost: &str| (input, output, Some(cost.to_owned()));
    assert_eq!(told, [step(1500, 1, "0.005080"), step(3000, 2, "0.010160")]);
    assert!(!reader.is_over());
    assert_eq!(steps(reader.line(end[0]).into_iter()), [step(3000, 84, "0.011800")]);
    assert!(reader.is_over());
}

#[test]
fn codexs_use_is_known_after_every_step_from_its_own_record() {
    let mut reader = codex().reader(&request(fresh()));
    assert_eq!(reader.session_log(), None);
    reader.line(r#"{"type":"thread.started","thread_id":"t-1"}"#);
    let side = reader.session_log().unwrap();
    assert_eq!((side.root, side.ending.as_str()), ("/home/ann/.codex/sessions".into(), "t-1.jsonl"));
    let model = r#"{"timestamp":"2026-11-16T00:52:20Z","type":"turn_context","payload":{"model":"gpt-5"}}"#;
    let recorded = text(CODEX_RECORD);
    let lines = [model].into_iter().chain(recorded.lines());
    let told = steps(lines.flat_map(|line| reader.session_log_line(line)));
    let step = |n: u64, cost: &str| (n * 1500, n * 42, Some(cost.to_owned()));
    assert_eq!(told, [step(1, "0.001958"), step(2, "0.003915"), step(3, "0.005872"), step(4, "0.007830")]);
    let end = r#"{"type":"turn.completed","usage":{"input_tokens":6000,"cached_input_tokens":1200,"output_tokens":168}}"#;
    assert_eq!(steps(reader.line(end).into_iter()), [step(4, "0.007830")]);
    let late = recorded.lines().flat_map(|line| reader.session_log_line(&line.replace("6000", "9000")));
    assert_eq!(steps(late), [], "what is read after the end is no news");
}

/// The CLI tells a turn's own use before its tools run; lines about earlier runs of the conversation do not count.
#[test]
fn a_resumed_thread_of_codex_counts_only_what_is_new() {
    let session =
        Session::Resume { id: "t-1".to_owned(), spent: ConversationUsage::settled(two_steps(None)) };
    let mut reader = codex().reader(&request(session));
    let record = |timestamp: &str, tokens: u64| {
        let usage =
            serde_json::json!({ "input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 1 });
        let payload = serde_json::json!({ "turn_token_usage": usage });
        serde_json::json!({ "timestamp": timestamp, "type": "token_usage_record", "payload": payload })
            .to_string()
    };
    let (past, future) = (record("2020-01-01T00:00:00Z", 9_000), record("2999-01-01T00:00:00Z", 1_500));
    assert_eq!(steps(reader.session_log_line(&past).into_iter()), []);
    assert_eq!(steps(reader.session_log_line(&future).into_iter()), [(1_500, 1, None)]);
}

/// The recording as one of two runs: the first, long ago, was killed after so many steps, the second is under way.
fn record_of_two_runs(n_steps: usize) -> Vec<String> {
    let recorded = text(CODEX_RECORD);
    let dated = |(index, line): (usize, &str)| {
        let year = if index < n_steps { "2020" } else { "2999" };
        line.replacen("2026", year, 1)
    };
    recorded.lines().enumerate().map(dated).collect()
}

/// What the run after a killed one is said to have used, step by step and at its end.
fn share_after_a_kill(n_steps: usize, killed: Spending) -> [Vec<(u64, u64, Option<String>)>; 2] {
    let before = ConversationUsage { reported: Spending::default(), unsettled: killed };
    let reader = || codex().reader(&request(Session::Resume { id: "t-1".to_owned(), spent: before }));
    let end = r#"{"type":"turn.completed","usage":{"input_tokens":6000,"cached_input_tokens":1200,"output_tokens":168}}"#;
    let (mut prompt, mut late) = (reader(), reader());
    let record = record_of_two_runs(n_steps);
    let mut in_time: Vec<EngineEvent> =
        record.iter().flat_map(|line| prompt.session_log_line(line)).collect();
    in_time.extend(prompt.line(end));
    // A short run has reported its end before its record is read.
    let mut afterwards = late.line(end);
    afterwards.extend(record.iter().flat_map(|line| late.session_log_line(line)));
    [steps(in_time.into_iter()), steps(afterwards.into_iter()).split_off(1)]
}

fn codex_steps(n: u64) -> Spending {
    Spending { input: n * 1200, cache_read: n * 300, output: n * 42, ..Spending::default() }
}

/// Of a killed run Codex counts what it had written down by then: all that was seen of it, or less. Either way the
/// killed run keeps what it used, and the next one has its own share alone.
#[test]
fn the_run_after_a_killed_one_of_codex_counts_neither_more_nor_less_than_its_own() {
    let step = |n: u64| (n * 1500, n * 42, None);
    let own_two = [vec![step(1), step(2), step(2)], vec![step(2)]];
    assert_eq!(share_after_a_kill(2, codex_steps(2)), own_two, "all of it was written down");
    assert_eq!(share_after_a_kill(2, codex_steps(3)), own_two, "its last step was not");
    let own_four = [vec![step(1), step(2), step(3), step(4), step(4)], vec![step(4)]];
    assert_eq!(share_after_a_kill(0, codex_steps(1)), own_four, "none of it was");
}

/// The reader of the output was killed first: usage after that is only in the record of the run.
#[test]
fn unread_usage_of_a_codex_run_is_read_from_its_record() {
    let share = |since: &str| {
        let mut reader = codex().record_reader("t-1", since.parse().unwrap()).unwrap();
        let ending = reader.session_log().unwrap().ending;
        let told = steps(record_of_two_runs(3).iter().flat_map(|line| reader.session_log_line(line)));
        (ending, told.last().cloned())
    };
    let used = |n: u64| ("t-1.jsonl".to_owned(), Some((n * 1500, n * 42, None)));
    assert_eq!(share("2019-01-01T00:00:00Z"), used(4));
    assert_eq!(share("2026-01-01T00:00:00Z"), used(1));
    assert!(claude().record_reader("t-1", chrono::Utc::now()).is_none());
}

/// There is no recording of an account at its limit: these are the words people report of it.
#[test]
fn an_account_at_its_limit_is_told_with_the_time_when_it_goes_on() {
    let end = |engine: &dyn Engine, line: serde_json::Value| {
        let mut reader = engine.reader(&request(fresh()));
        reader.line(&line.to_string());
        format!("{:?}", reader.end(&Exit { status: ExitStatus::from_raw(1 << 8), stderr: String::new() }))
    };
    let result = "You've hit your limit · resets 1:30am (Asia/Dhaka)";
    let claude_says =
        serde_json::json!({ "type": "result", "subtype": "success", "is_error": true, "result": result });
    let limit = serde_json::json!({ "error": { "type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_at": 1_777_936_568 } });
    let codex_says = serde_json::json!({ "type": "turn.failed", "error": { "message": limit.to_string() } });
    assert_eq!(
        [end(&claude(), claude_says), end(&codex(), codex_says)],
        [
            r#"Failed { kind: UsageLimit, text: "You've hit your limit · resets 1:30am (Asia/Dhaka)" }"#,
            r#"Failed { kind: UsageLimit, text: "The usage limit has been reached; resets at 2026-05-04T23:16:08Z" }"#,
        ]
    );
}
