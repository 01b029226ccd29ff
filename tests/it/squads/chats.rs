//! Conversations: begun, continued in the same workspace and engine session, across restarts; refused where there are none.

use serde_json::{Value, json};

use super::prompts::{FOOTER, ROLE};
use super::{SCRIPT, Squads, member, program};
use crate::harness::{Up, eventually};

/// Shows the names of the conversation and the prompt's headings.
const TALKING: &str =
    "sh\n-c\necho \"new=$1 old=$2\"; grep '^# ' || true\nx\n<% newChatId %>\n<% chatId %>\n";
const STATEFUL: (&str, &str) = ("STATE_MODE", "stateful");

fn follow_up(chat: &str, task: &str) -> Value {
    json!({ "roleId": "coder", "task": task, "chatId": chat })
}

#[tokio::test]
async fn a_chat_goes_on_without_the_role_in_the_same_workspace_and_survives_kill_9() {
    let squads = Squads::with(TALKING, &[STATEFUL]).await;
    squads.up.agent_with(json!({ "project": "setup", "spec": "true", "name": "otter" })).await;
    let first = json!({ "roleId": "coder", "task": "begin", "agent_name": "otter", "chatId": "  " });
    let first = squads.run_one(first).await;
    let chat = first["chatId"].as_str().unwrap().to_owned();
    let headings = "# Role\n# Initial Task\n# Setup & Reporting Rules\n";
    assert_eq!(first["rawStdout"], format!("new={chat} old=\n{headings}"), "{first}");
    let killed = squads.up.killed().await;
    let squads = Squads { up: Up::start_here(&killed).await };
    let second = squads.run_one(follow_up(&chat, "go on")).await;
    let headings = "# Task\n# Setup & Reporting Rules\n";
    assert_eq!(second["rawStdout"], format!("new= old={chat}\n{headings}"), "{second}");
    assert_eq!((&second["chatId"], &second["cwd"]), (&json!(chat), &first["cwd"]));
}

#[tokio::test]
async fn both_forms_of_a_chats_prompt_arrive_whole() {
    let squads = Squads::with("cat\n", &[STATEFUL]).await;
    let roles = squads.up.program.data_dir().join("roles");
    std::fs::create_dir_all(&roles).unwrap();
    std::fs::write(roles.join("trier.md"), ROLE).unwrap();
    let first = squads.run_one(member("trier", "Begin \"here\".\n")).await;
    let role = "You \"try\" $things.\n\n<% prompt %> `id`";
    let whole = format!("# Role\n\n{role}\n\n---\n\n# Initial Task\n\nBegin \"here\".\n{FOOTER}");
    assert_eq!(first["rawStdout"], whole);
    let chat = first["chatId"].as_str().unwrap();
    let second = squads.run_one(follow_up(chat, "Go on.")).await;
    assert_eq!(second["rawStdout"], format!("# Task\n\nGo on.{FOOTER}"));
}

#[tokio::test]
async fn an_unknown_chat_one_in_use_and_one_elsewhere_are_that_members_error() {
    let squads = Squads::with(TALKING, &[STATEFUL]).await;
    squads.up.agent_with(json!({ "project": "setup", "spec": "true", "name": "otter" })).await;
    let chat = squads.run_one(member("coder", "begin")).await["chatId"].as_str().unwrap().to_owned();
    let mut elsewhere = follow_up(&chat, "x");
    elsewhere["agent_name"] = json!("otter");
    let run =
        squads.run(&json!([follow_up("nope", "x"), follow_up(&chat, "x"), follow_up(&chat, "y")])).await;
    let told = |member: &Value| (member["status"].as_str().unwrap().to_owned(), member["rawStderr"].clone());
    let error = |text: String| ("error".to_owned(), json!(text));
    let members: Vec<_> = run["members"].as_array().unwrap().iter().map(told).collect();
    let expected = [
        error("chat 'nope' not found; omit chatId to start a new one".to_owned()),
        ("completed".to_owned(), json!("")),
        error(format!("chat '{chat}' is in use by another member; wait until that member has ended")),
    ];
    assert_eq!(members, expected);
    let moved = squads.run_one(elsewhere).await;
    assert_eq!(told(&moved), error(format!("chat '{chat}' belongs to agent 'runs-here'; omit agent_name")));
    let stranger = squads.up.program.json(&["token", "create", "--kind", "manager", "--json"]).await;
    let body = json!({ "members": [follow_up(&chat, "x")] });
    let token = stranger["token"].as_str().unwrap();
    let run = squads.up.call_as(token, reqwest::Method::POST, "/api/v1/squads", &body).await;
    let unknown = error(format!("chat '{chat}' not found; omit chatId to start a new one"));
    assert_eq!(told(&run.body["members"][0]), unknown);
}

#[tokio::test]
async fn an_engine_that_makes_its_chats_is_asked_for_one_first() {
    let template = "sh\n-c\necho \"new=$1 old=$2\"\nx\n<% newChatId %>\n<% chatId %>\n";
    let program = program(template, &[STATEFUL]);
    let path = program.directory.path().join("chat.template");
    std::fs::write(&path, "sh\n-c\necho; echo '  made-by-engine '\n").unwrap();
    let program = program.variable("CREATE_CHAT_TEMPLATE_PATH", path.to_str().unwrap());
    let squads = Squads::on(program).await;
    let first = squads.run_one(member("coder", "x")).await;
    assert_eq!(
        (&first["chatId"], &first["rawStdout"]),
        (&json!("made-by-engine"), &json!("new= old=made-by-engine\n"))
    );
    std::fs::write(&path, "sh\n-c\necho cannot >&2; exit 1\n").unwrap();
    let again = Up::start_here(&squads.up.killed().await).await;
    let failed = Squads { up: again }.run_one(member("coder", "x")).await;
    assert_eq!(
        (&failed["status"], &failed["rawStderr"]),
        (&json!("error"), &json!("the chat could not be created: cannot"))
    );
}

#[tokio::test]
async fn where_members_remember_nothing_chats_are_neither_taken_nor_returned_nor_shown() {
    let squads = Squads::scripted().await;
    let refused = squads.refused(&json!({ "members": [follow_up("c", "true")] })).await;
    assert_eq!((refused.status, &refused.body["details"]["field"]), (400, &json!("members[0].chatId")));
    let one = squads.run_one(member("coder", "true")).await;
    assert_eq!(one.get("chatId"), None);
}

#[tokio::test]
async fn of_many_members_that_continue_one_chat_at_once_one_gets_it() {
    let squads = Squads::with(SCRIPT, &[STATEFUL]).await;
    let chat = squads.run_one(member("coder", "true")).await["chatId"].as_str().unwrap().to_owned();
    let go = squads.sign("go");
    let task = format!("until [ -e {} ]; do sleep 0.02; done; echo went on", go.display());
    let body = json!({ "members": [follow_up(&chat, &task)], "async": true });
    let asked = (0..6).map(|_| squads.up.post("/api/v1/squads", &body));
    let accepted = futures_util::future::join_all(asked).await;
    std::fs::write(&go, "").unwrap();
    let mut told = Vec::new();
    for squad in accepted {
        let done = squads.done(squad["squadId"].as_str().unwrap()).await;
        let one = &done["members"][0];
        told.push((one["rawStdout"].as_str().unwrap().to_owned(), one["rawStderr"].clone()));
    }
    told.sort_by(|one, other| other.0.cmp(&one.0));
    let refusal = format!("chat '{chat}' is in use by another member; wait until that member has ended");
    let mut expected = vec![(String::new(), json!(refusal)); 6];
    expected[0] = ("went on\n".to_owned(), json!(""));
    assert_eq!(told, expected);
    assert_eq!(squads.run_one(follow_up(&chat, "true")).await["chatId"], json!(chat));
}

#[tokio::test]
async fn a_chat_goes_on_after_a_member_that_ran_out_of_time_or_failed_without_a_word() {
    let squads = Squads::with(SCRIPT, &[STATEFUL, ("PROCESS_TIMEOUT_MS", "1500")]).await;
    for (task, status) in [("sleep 600", "timeout"), ("exit 3", "error")] {
        let first = squads.run_one(member("coder", task)).await;
        assert_eq!((&first["status"], &first["rawStdout"]), (&json!(status), &json!("")), "{first}");
        let second = squads.run_one(follow_up(first["chatId"].as_str().unwrap(), "echo on")).await;
        let told = (&second["chatId"], &second["rawStdout"], &second["rawStderr"]);
        assert_eq!(told, (&first["chatId"], &json!("on\n"), &json!("")), "{second}");
    }
}

#[tokio::test]
async fn a_chat_is_told_only_when_it_can_be_continued() {
    let squads = Squads::with(SCRIPT, &[STATEFUL]).await;
    let go = squads.sign("go");
    let task = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let mut lost = member("coder", "true");
    lost["cwd"] = json!("missing");
    let squad = squads.begin(&json!([member("coder", &task), follow_up("nope", "true"), lost])).await;
    let path = format!("/api/v1/squads?squadId={squad}");
    eventually("the first one runs, the others are over", async || {
        let members = squads.up.get(&path).await["members"].clone();
        let statuses = [0, 1, 2].map(|n| members[n]["status"].as_str().unwrap().to_owned());
        statuses == ["running", "error", "error"]
    })
    .await;
    let chats = async || {
        let shown = squads.up.get(&path).await;
        [0, 1, 2].map(|n| shown["members"][n].get("chatId").is_some())
    };
    assert_eq!(chats().await, [false, false, false]);
    std::fs::write(&go, "").unwrap();
    squads.done(&squad).await;
    assert_eq!(chats().await, [true, false, false]);
}

#[tokio::test]
async fn stateless_server_hides_chats_of_an_earlier_stateful_run() {
    let squads = Squads::with(SCRIPT, &[STATEFUL]).await;
    let ran = squads.run(&json!([member("coder", "echo hello")])).await;
    let mut expected = ran["members"].clone();
    assert!(expected[0].as_object_mut().unwrap().remove("chatId").is_some(), "{ran}");
    let program = squads.up.killed().await.variable("STATE_MODE", "stateless");
    let squads = Squads { up: Up::start_here(&program).await };
    assert_eq!(squads.done(ran["squadId"].as_str().unwrap()).await["members"], expected);
}
