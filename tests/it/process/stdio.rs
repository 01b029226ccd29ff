//! `stdio`: a client's own program, which finds the server or starts one that outlives it.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::harness::{Pace, Program, server_file, stub};

/// Starts `stdio`, sends each message as a line and reads the answers of those with an id.
async fn talk(program: &Program, messages: &[Value]) -> Vec<Value> {
    let mut command = tokio::process::Command::from(program.command(&["stdio"]));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answers = Vec::new();
    for message in messages {
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        if message.get("id").is_some() {
            let line =
                tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await.unwrap().unwrap();
            answers.push(serde_json::from_str(&line.expect("an answer")).unwrap());
        }
    }
    drop(input);
    assert!(child.wait().await.unwrap().success());
    answers
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
}

#[tokio::test]
async fn stdio_starts_a_server_that_outlives_it_and_the_next_one_finds_it() {
    let coder = stub(Pace::Instant).await;
    let program = Program::on(&coder).variable("MCP_SERVER_PORT", "0");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "fleet_status", "arguments": {}}});
    let answers = talk(&program, &[initialize(), initialized.clone(), call.clone()]).await;
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "fleet");
    assert_eq!(answers[1]["result"]["structuredContent"]["capacity"]["used"], 0);
    let first = server_file(&program.data_dir()).expect("the server still serves");
    talk(&program, &[initialize(), initialized, call]).await;
    assert_eq!(server_file(&program.data_dir()).map(|file| file.pid), Some(first.pid));
    assert!(program.run(&["down"]).await.status.success());
    assert_eq!(server_file(&program.data_dir()), None);
}

#[tokio::test]
async fn stdio_takes_another_port_where_the_usual_one_is_taken() {
    let coder = stub(Pace::Instant).await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let program = Program::on(&coder).variable("MCP_SERVER_PORT", &port.to_string());
    let answers = talk(&program, &[initialize()]).await;
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "fleet");
    let server = server_file(&program.data_dir()).expect("it serves");
    assert_ne!(server.url.port(), Some(port));
    assert!(program.run(&["down"]).await.status.success());
}
