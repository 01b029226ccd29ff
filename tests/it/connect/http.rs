//! `connect --http`: one manager token per client, kept while it is good, readable by its owner alone.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{Left, home, interrupt, told, up};
use crate::harness::Program;

fn entry(program: &Program) -> Value {
    let text = std::fs::read_to_string(home(program, ".cursor/mcp.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["fleet"].clone()
}

/// Names and kinds of the tokens that were made by `connect`.
async fn tokens(program: &Program) -> Vec<(Value, Value, Value)> {
    let list = program.json(&["--json", "token", "list"]).await;
    let made = list["tokens"].as_array().unwrap().iter();
    let made = made.filter(|token| token["name"].as_str().unwrap().starts_with("connect-"));
    made.map(|token| (token["name"].clone(), token["kind"].clone(), token["id"].clone())).collect()
}

async fn status_of_ping(entry: &Value) -> u16 {
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let request = http.post(entry["url"].as_str().unwrap()).json(&ping);
    let request = request.header("Authorization", entry["headers"]["Authorization"].as_str().unwrap());
    let request = request.header("Accept", "application/json, text/event-stream");
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_token_is_made_once_works_and_is_replaced_when_it_is_revoked() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let server = up(&program, &[]).await;
    let connect = ["connect", "cursor", "--http"];
    assert!(program.run(&connect).await.status.success());
    let first = entry(&program);
    assert_eq!(status_of_ping(&first).await, 200);
    let mode = std::fs::metadata(home(&program, ".cursor/mcp.json")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let second = program.run(&connect).await;
    assert!(String::from_utf8_lossy(&second.stdout).contains("was already connected"));
    assert_eq!(entry(&program), first);
    let made = tokens(&program).await;
    assert_eq!((made.len(), &made[0].0, &made[0].1), (1, &json!("connect-cursor"), &json!("manager")));
    let id = made[0].2.as_str().unwrap();
    assert!(program.run(&["token", "revoke", id]).await.status.success());
    assert_eq!(status_of_ping(&first).await, 401);
    assert!(program.run(&connect).await.status.success());
    assert_eq!(status_of_ping(&entry(&program)).await, 200);
    let removed = told(&program, &program.run(&["connect", "cursor", "--remove"]).await);
    assert!(removed.contains("its token is still valid"), "{removed}");
    interrupt(server).await;
}

#[tokio::test]
async fn nothing_is_made_for_a_look_or_for_a_client_that_cannot_go_this_way() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let no_server = told(&program, &program.run(&["connect", "codex", "--http"]).await);
    assert!(no_server.starts_with("exit 5\n"), "{no_server}");
    let server = up(&program, &[]).await;
    let printed = program.run(&["connect", "codex", "--http", "--print"]).await;
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(text.contains("http_headers = { Authorization = \"Bearer TOKEN\" }"), "{text}");
    let refused = told(&program, &program.run(&["connect", "claude-desktop", "--http"]).await);
    assert_eq!(
        refused,
        "exit 2\nerror: Claude Desktop cannot be connected by HTTP through its file\n  next: Run 'fleet-mcp connect \
         claude-desktop' without --http.\n"
    );
    assert_eq!(tokens(&program).await, Vec::new());
    assert!(!home(&program, ".codex").exists());
    interrupt(server).await;
}
