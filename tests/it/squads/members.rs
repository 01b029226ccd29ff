//! Members that fail, take too long, fork and flood: each for itself, in the order given.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Squads, member, told};
use crate::harness::{eventually, eventually_within, processes_under};

#[tokio::test]
async fn one_that_fails_does_not_touch_the_others_and_the_order_is_kept() {
    let squads = Squads::scripted().await;
    let members = json!([
        member("coder", "sleep 0.3; echo first from $1"),
        member("reviewer", "echo out; echo broken >&2; exit 3"),
        member("QA-Engineer", "echo third; kill -9 $$"),
        member("planner", "printf 'fourth'"),
    ]);
    let run = squads.run(&members).await;
    let expected = [
        ("completed", "first from coder\n"),
        ("error", "out\n"),
        ("error", "third\n"),
        ("completed", "fourth"),
    ];
    assert_eq!(told(&run["members"]), expected.map(|(status, text)| (status.to_owned(), text.to_owned())));
    let second = &run["members"][1];
    let repository = squads.repository();
    let rest = json!({
        "memberId": second["memberId"], "roleId": "reviewer", "cwd": repository, "status": "error",
        "reason": "exited with 3", "rawStdout": "out\n", "rawStderr": "broken\n", "stdout_bytes": 4,
        "stderr_bytes": 7, "truncated": false
    });
    assert_eq!(second, &rest);
    assert_eq!(run["members"][2]["reason"], "ended by signal 9");
}

#[tokio::test]
async fn a_timeout_beats_an_exit_code_of_zero_keeps_what_was_written_and_ends_every_descendant() {
    let squads = Squads::with(super::SCRIPT, &[("PROCESS_TIMEOUT_MS", "1500")]).await;
    let sign = squads.sign("descendants");
    let task = format!(
        "echo partial; echo half >&2; trap 'exit 0' TERM; (trap '' TERM; echo $$; sleep 3333) & \
         setsid sh -c 'trap \"\" TERM; echo $$ >>{0}; sleep 3334' & echo $! >>{0}; while :; do sleep 0.05; done",
        sign.display()
    );
    let one = squads.run_one(member("coder", &task)).await;
    assert_eq!(one["status"], "timeout", "{one}");
    assert!(one["rawStdout"].as_str().unwrap().starts_with("partial\n"), "{one}");
    // A shell may add that it was terminated.
    assert!(one["rawStderr"].as_str().unwrap().starts_with("half\n"), "{one}");
    let pids = std::fs::read_to_string(&sign).unwrap();
    eventually_within(Duration::from_secs(5), "no descendant is left", async || {
        let is_gone = |pid: &str| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            !line.contains("sleep") && !line.contains("trap")
        };
        pids.lines().all(is_gone)
    })
    .await;
    let left: Vec<String> = processes_under(squads.up.program.directory.path())
        .into_iter()
        .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default())
        .filter(|line| line.contains("sleep"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn three_megabytes_come_whole_through_pages() {
    let squads = Squads::scripted().await;
    let task = "i=0; while [ $i -lt 70000 ]; do echo \"line $i of the flood, with an é and a \\\"quote\\\"\"; \
        i=$((i + 1)); done; head -c 100000 /dev/zero | tr '\\0' x >&2";
    let run = squads.run(&json!([member("coder", task)])).await;
    let (squad, one) = (run["squadId"].as_str().unwrap(), &run["members"][0]);
    let whole: String =
        (0..70_000).map(|i| format!("line {i} of the flood, with an é and a \"quote\"\n")).collect();
    assert!(whole.len() > 3_000_000);
    assert_eq!((&one["stdout_bytes"], &one["truncated"]), (&json!(whole.len()), &json!(true)));
    let page = async |offset: i64, limit: &str| -> Value {
        let member = one["memberId"].as_str().unwrap();
        let path =
            format!("/api/v1/squads?squadId={squad}&memberId={member}&stream=stdout&offset={offset}{limit}");
        squads.up.get(&path).await
    };
    let (mut all, mut next) = (String::new(), Some(0));
    while let Some(offset) = next {
        let page = page(offset, "&limit=700001").await;
        assert_eq!((&page["offset"], &page["total_bytes"]), (&json!(offset), &json!(whole.len())));
        all.push_str(page["text"].as_str().unwrap());
        next = page["next_offset"].as_i64();
    }
    assert!(all == whole);
    let usual = page(10, "").await;
    assert_eq!(usual["text"].as_str().unwrap(), &whole[10..16_010]);
    assert_eq!(usual["next_offset"], 16_010);
}

#[tokio::test]
async fn an_unknown_role_starts_nothing_and_names_those_there_are() {
    let squads = Squads::scripted().await;
    let sign = squads.sign("ran");
    let task = format!("echo ran >{}", sign.display());
    let body = json!({ "members": [member("coder", &task), member("clown", "x")] });
    let reply = squads.refused(&body).await;
    assert_eq!((reply.status, &reply.body["code"]), (404, &json!("NOT_FOUND")));
    let known = "architect, backend-developer, coder, frontend-developer, manager, operator, planner, qa-engineer, reviewer";
    assert_eq!(reply.body["message"], format!("role 'clown' not found; there are: {known}"));
    let agents = squads.up.get("/api/v1/agents?include_runs=true").await;
    assert_eq!((&agents["total_count"], sign.exists()), (&json!(0), false));
}

#[tokio::test]
async fn a_members_task_is_in_the_history_of_its_workspace_and_can_be_canceled_there() {
    let squads = Squads::scripted().await;
    squads.run_one(member("coder", "echo good work")).await;
    let sign = squads.sign("begun");
    let squad =
        squads.begin(&json!([member("coder", &format!("touch {}; sleep 600", sign.display()))])).await;
    eventually("it runs", async || sign.exists()).await;
    eventually("its workspace is busy", async || squads.up.show("runs-here").await["status"] == "busy").await;
    let token = squads.up.operator_token();
    let canceled = squads
        .up
        .call_as(&token, reqwest::Method::DELETE, "/api/v1/agents/runs-here/tasks", &Value::Null)
        .await;
    assert_eq!((canceled.status, &canceled.body["reached"]), (200, &json!("signals")), "{}", canceled.body);
    let ended = squads.done(&squad).await;
    assert_eq!(ended["members"][0]["reason"], "was canceled");
    let history = squads.up.get("/api/v1/agents/runs-here/history").await;
    let entries = history["tasks"].as_array().unwrap().iter();
    let entries: Vec<_> =
        entries.map(|entry| (entry["state"].as_str().unwrap(), &entry["outcome"])).collect();
    assert_eq!(entries, [("canceled", &json!("was canceled")), ("done", &json!("good work"))]);
}
