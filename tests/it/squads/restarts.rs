//! Kill -9 in the middle of squads: every result is recovered, and no member runs twice.

use std::sync::Arc;
use std::time::Duration;

use chrono::{SecondsFormat, TimeDelta, Utc};
use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::squads::{NewMember, StartSquad};
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::hosting::{Hosting, Isolation};
use fleet_mcp::domain::limits::Limits;
use fleet_mcp::domain::squad::{Member, MemberStatus};
use fleet_mcp::engine::EngineWord;
use serde_json::{Value, json};

use super::{SCRIPT, Squads, member};
use crate::harness::{
    FalseAnswer, FaultProxy, LocalSite, Matches, ProxyFault, Rule, RunningFleet, RunningLocal, Up, When,
    client, eventually, fleet_options, kill, moments, operator, project, runners_under,
};

const MEMBERS: usize = 3;
const TERMINAL: &str = "/api/v2/workspaceagents/{agent}/pty";

/// Notes that it ran, and waits until it may go on.
fn members(squads: &Squads) -> Value {
    let (ran, go) = (squads.sign("ran"), squads.sign("go"));
    let task = |n: usize| {
        let (ran, go) = (ran.display(), go.display());
        member("coder", &format!("echo {n} >>{ran}; until [ -e {go} ]; do sleep 0.02; done; echo result {n}"))
    };
    (0..MEMBERS).map(task).collect::<Vec<_>>().into()
}

async fn all_are_well(squads: &Squads, squad: &str) {
    std::fs::write(squads.sign("go"), "").unwrap();
    let done = squads.done(squad).await;
    let expected: Vec<_> = (0..MEMBERS).map(|n| ("completed".to_owned(), format!("result {n}\n"))).collect();
    assert_eq!(super::told(&done["members"]), expected, "{done}");
    let ran = std::fs::read_to_string(squads.sign("ran")).unwrap();
    let mut ran: Vec<&str> = ran.lines().collect();
    ran.sort_unstable();
    assert_eq!(ran, ["0", "1", "2"], "each ran once");
    eventually("the history agrees", async || {
        let history = squads.up.get("/api/v1/agents/runs-here/history").await;
        let tasks = history["tasks"].as_array().unwrap().clone();
        tasks.len() == MEMBERS && tasks.iter().all(|task| task["state"] == "done")
    })
    .await;
}

async fn killed_after(delay: Duration, mode: &str) {
    let squads = Squads::with(SCRIPT, &[("EXECUTION_MODE", mode)]).await;
    // The workspace is there before, so that the delay falls into the members' own course.
    squads.up.post("/api/v1/squads", &json!({ "members": [member("coder", "true")] })).await;
    squads.up.delete("runs-here", "&keep_work=false").await;
    let squad = squads.begin(&members(&squads)).await;
    if mode == "sequential" {
        std::fs::write(squads.sign("go"), "").unwrap();
    }
    tokio::time::sleep(delay).await;
    let next = Squads { up: Up::start_here(&squads.up.killed().await).await };
    all_are_well(&next, &squad).await;
}

#[tokio::test]
async fn kills_at_any_moment_lose_no_result_and_run_nothing_twice() {
    for millis in moments(&[0, 40, 150, 400, 800, 1_300]) {
        killed_after(Duration::from_millis(millis), "parallel").await;
    }
}

#[tokio::test]
async fn kills_between_members_in_turn_lose_no_result_and_run_nothing_twice() {
    for millis in moments(&[60, 500, 700, 900]) {
        killed_after(Duration::from_millis(millis), "sequential").await;
    }
}

#[tokio::test]
async fn the_delay_between_members_counts_from_an_end_before_the_start() {
    let variables = [("EXECUTION_MODE", "sequential"), ("SEQUENTIAL_DELAY_MS", "3000")];
    let squads = Squads::with(SCRIPT, &variables).await;
    let squad = squads.begin(&json!([member("coder", "true"), member("coder", "true")])).await;
    let path = format!("/api/v1/squads?squadId={squad}");
    eventually("the first has ended", async || {
        squads.up.get(&path).await["members"][0]["status"] == "completed"
    })
    .await;
    let squads = Squads { up: Up::start_here(&squads.up.killed().await).await };
    let done = squads.done(&squad).await;
    let [first, second]: [_; 2] = squads.recorded(&done).await.try_into().unwrap();
    let pause = second.0 - first.1;
    assert!(pause >= TimeDelta::seconds(3), "{pause}");
}

#[tokio::test]
async fn old_outputs_of_members_are_removed_and_their_results_are_kept() {
    let squads = Squads::scripted().await;
    let ran = squads.run(&json!([member("coder", "echo hello; echo oops >&2")])).await;
    let (squad, id) = (ran["squadId"].as_str().unwrap(), ran["members"][0]["memberId"].as_str().unwrap());
    let program = squads.up.killed().await;
    let store = super::store(&program).await;
    let long_after = Utc::now() + TimeDelta::days(31);
    assert_eq!(store.run_outputs_prune(long_after - TimeDelta::days(30), long_after).await.unwrap(), 1);
    store.close().await;

    let squads = Squads { up: Up::start_here(&program).await };
    let shown = squads.done(squad).await["members"][0].clone();
    let at = long_after.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut expected = ran["members"][0].clone();
    expected["rawStdout"] = json!("");
    expected["rawStderr"] = json!("");
    expected["output_removed_at"] = json!(at);
    assert_eq!(shown, expected);
    let page = squads.up.get(&format!("/api/v1/squads?squadId={squad}&memberId={id}&stream=stdout")).await;
    assert_eq!(page, json!({ "text": "", "offset": 0, "total_bytes": 6, "output_removed_at": at }));
    let printed = program.run(&["squad", "status", squad]).await;
    let told = String::from_utf8_lossy(&printed.stderr).into_owned();
    assert!(told.contains("the output was removed"), "{told}");
}

#[cfg(feature = "test-hooks")]
mod kill_points {
    use super::*;

    #[tokio::test]
    async fn member_ends_once_after_a_kill_at_every_step() {
        let points = [
            "squad.accepted",
            "member.recorded",
            "member.launched",
            "run.accepted",
            "run.sent",
            "run.started",
            "run.counted",
            "member.ending",
            "member.noted",
            "member.ended",
        ];
        for point in moments(&points) {
            let program = super::super::program(SCRIPT, &[]).variable("FLEET_KILL_POINT", point);
            let squads = Squads::on(program).await;
            std::fs::write(squads.sign("go"), "").unwrap();
            let key = json!({ "members": members(&squads), "async": true, "request_key": "k" });
            let token = squads.up.operator_token();
            // The answer may be lost with the server; the key finds the squad again.
            let api = squads.up.call_or_nothing(&token, "/api/v1/squads", &key).await;
            let program = squads.up.died().await.variable("FLEET_KILL_POINT", "");
            let next = Squads { up: Up::start_here(&program).await };
            let squad = next.up.post("/api/v1/squads", &key).await["squadId"].as_str().unwrap().to_owned();
            assert!(api.is_none_or(|answer| answer["squadId"] == squad.as_str()), "{point}");
            all_are_well(&next, &squad).await;
        }
    }
}

#[tokio::test]
async fn a_member_whose_runner_is_killed_ends_with_its_reason_and_the_next_one_runs() {
    let squads = Squads::scripted().await;
    let began = squads.sign("began");
    let task = format!("touch {}; sleep 600", began.display());
    let squad = squads.begin(&json!([member("coder", &task)])).await;
    eventually("the member runs", async || began.exists()).await;
    runners_under(squads.up.program.directory.path()).into_iter().for_each(kill);
    let done = squads.done(&squad).await;
    let ended = &done["members"][0];
    let reason = "it was terminated from outside, possibly by a stop of its workspace";
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("error"), &json!(reason)));
    let next = squads.run_one(member("coder", "echo fine")).await;
    assert_eq!((&next["status"], &next["rawStdout"]), (&json!("completed"), &json!("fine\n")));
}

/// A fleet whose requests to Coder pass through a proxy, with one idle agent.
async fn behind_a_proxy(limits: Limits) -> (LocalSite, RunningLocal, FaultProxy, RunningFleet) {
    let site = LocalSite::new().project(project("setup", None));
    let local = site.start().await;
    let proxy = FaultProxy::start(&local.url).await;
    let mut options = FleetOptions { limits, ..fleet_options() };
    options.engine.word = EngineWord::Demo;
    options.hosting = Hosting::Embedded(Isolation::Enforced);
    let coder = client(&proxy.url(), &local.token);
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let running = RunningFleet::start_with(directory, coder, options).await.seen().await;
    running.create("one").await.unwrap();
    running.becomes("one", AgentStatus::Idle).await;
    (site, local, proxy, running)
}

/// The only member of a squad in that agent, at its end.
async fn only_member(running: &RunningFleet) -> Member {
    let member = NewMember {
        role: "coder".to_owned(),
        task: "say hello".to_owned(),
        cwd: None,
        chat: None,
        agent: Some("one".to_owned()),
    };
    let request = StartSquad { members: vec![member], metadata: None, request: None };
    let caller = operator();
    let squad = running.fleet.squad_start(&caller, request).await.unwrap();
    let mut wait = running.fleet.squad_wait(&caller, squad);
    while wait.next().await.unwrap().is_some() {}
    running.fleet.squad_show(&caller, squad, 1_000).await.unwrap().squad.members.remove(0)
}

/// A workspace that is being restarted has another agent than the one that was seen last.
#[tokio::test]
async fn a_member_whose_workspace_does_not_answer_for_a_moment_begins_once_it_does() {
    let (_site, local, proxy, running) = behind_a_proxy(Limits::NORMAL).await;
    let body = r#"{"message":"Resource not found or you do not have access to this resource"}"#.to_owned();
    let gone = FalseAnswer { status: 404, content_type: "application/json".to_owned(), body };
    let refused = proxy.fault(Rule {
        matches: Matches::path(TERMINAL),
        when: When::First(2),
        kind: ProxyFault::AnswerBefore(gone),
    });
    let member = only_member(&running).await;
    assert_eq!(member.status(), MemberStatus::Completed, "{member:?}");
    assert_eq!(proxy.fault_hits(refused), 2);
    running.stop().await;
    local.coder.stop().await;
}

#[tokio::test]
async fn a_member_whose_workspace_stays_silent_fails_within_the_limits() {
    let second = Duration::from_secs(1);
    let limits = Limits { workspace_answer: second, member_silence: second, ..Limits::NORMAL };
    let (_site, local, proxy, running) = behind_a_proxy(limits).await;
    proxy.fault(Rule { matches: Matches::path(TERMINAL), when: When::Always, kind: ProxyFault::Stall });
    let member = tokio::time::timeout(second * 20, only_member(&running)).await.unwrap();
    let reason = "the workspace does not respond: no response in time";
    assert_eq!((member.status(), member.reason().as_deref()), (MemberStatus::Error, Some(reason)));
    running.stop().await;
    local.coder.stop().await;
}
