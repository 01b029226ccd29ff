//! Conversations: begun, continued in the same workspace and engine session, across restarts; refused where there are none.

use serde_json::{Value, json};

use super::prompts::{FOOTER, ROLE};
use super::{Squads, member, program};
use crate::harness::Up;

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
        error("chat 'nope' is not known; leave chatId out to begin a new one".to_owned()),
        ("completed".to_owned(), json!("")),
        error(format!("chat '{chat}' is in use by another member; wait until that has ended")),
    ];
    assert_eq!(members, expected);
    let moved = squads.run_one(elsewhere).await;
    assert_eq!(
        told(&moved),
        error(format!("chat '{chat}' lives in agent 'runs-here'; leave agent_name out"))
    );
    let stranger = squads.up.program.json(&["token", "create", "--kind", "manager", "--json"]).await;
    let body = json!({ "members": [follow_up(&chat, "x")] });
    let token = stranger["token"].as_str().unwrap();
    let run = squads.up.call_as(token, reqwest::Method::POST, "/api/v1/squads", &body).await;
    let unknown = error(format!("chat '{chat}' is not known; leave chatId out to begin a new one"));
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
        (&json!("error"), &json!("no chat could be made: cannot"))
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
