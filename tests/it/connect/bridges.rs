//! `stdio`: several bridges and the command line on one server, through restarts, with fewer rights.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::{Left, interrupt, told, up};
use crate::harness::{Pace, Program, eventually, json_in, kill, server_file, stub};

/// A client's end of one `stdio` process.
pub(super) struct Bridge {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    n_sent: u64,
}

impl Bridge {
    pub(super) async fn open(program: &Program, arguments: &[&str]) -> Self {
        let all: Vec<&str> = ["stdio"].iter().chain(arguments).copied().collect();
        let mut command = tokio::process::Command::from(program.command(&all));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut bridge = Self { child, input, output: BufReader::new(output).lines(), n_sent: 0 };
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        assert_eq!(bridge.ask("initialize", params).await["result"]["serverInfo"]["name"], "fleet");
        bridge
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.n_sent += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.n_sent, "method": method, "params": params });
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let line = self.output.next_line().await.unwrap().expect("an answer");
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.n_sent);
        answer
    }

    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert!(answer["error"].is_null(), "{answer}");
        json_in(answer["result"]["content"][0]["text"].as_str().unwrap())
    }

    async fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) async fn close(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        assert!(child.wait().await.unwrap().success());
    }
}

pub(super) fn names(list: &Value) -> Vec<&str> {
    list["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn two_bridges_that_start_at_once_and_the_command_line_share_one_server() {
    let program = Program::without_coder().variable("MCP_SERVER_PORT", "0");
    let _left = Left(&program);
    let (mut one, mut two) = tokio::join!(Bridge::open(&program, &[]), Bridge::open(&program, &[]));
    let log = std::fs::read_to_string(program.data_dir().join("serve.log")).unwrap();
    assert_eq!(log.matches(" serving server.url=").count(), 1, "{log}");
    let create = |name: &str| json!({ "project": "setup", "spec": "say hello", "name": name });
    let arguments = ["--json", "agents", "create", "--project", "setup", "--spec", "x", "--name", "by-hand"];
    let (first, second, third) = tokio::join!(
        one.call("create_agent", create("one")),
        two.call("create_agent", create("two")),
        program.json(&arguments)
    );
    let made = [&first, &second, &third].map(|made| made["agent"]["name"].as_str().unwrap_or_default());
    assert_eq!(made, ["one", "two", "by-hand"], "{first} {second} {third}");
    for list in [one.call("list_agents", json!({})).await, two.call("list_agents", json!({})).await] {
        let mut found = names(&list);
        found.sort_unstable();
        assert_eq!(found, ["by-hand", "one", "two"]);
    }
    one.close().await;
    assert!(server_file(&program.data_dir()).is_some(), "the server outlives a bridge");
    two.close().await;
    assert!(program.run(&["down"]).await.status.success());
}

#[tokio::test]
async fn a_bridge_goes_on_after_its_server_was_restarted_on_another_port() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let server = up(&program, &[]).await;
    let mut bridge = Bridge::open(&program, &[]).await;
    interrupt(server).await;
    let away = bridge.ask("tools/call", json!({ "name": "fleet_status", "arguments": {} })).await;
    assert_eq!(away["error"]["data"]["retryable"], true, "{away}");
    let server = up(&program, &[]).await;
    assert!(bridge.call("fleet_status", json!({})).await["counts"].is_object());
    bridge.close().await;
    interrupt(server).await;
}

#[tokio::test]
async fn a_role_takes_rights_away_never_adds_any_and_ends_with_its_bridge() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let server = up(&program, &[]).await;
    let mut manager = Bridge::open(&program, &[]).await;
    let mut reviewer = Bridge::open(&program, &["--as-role", "reviewer"]).await;
    assert!(manager.tools().await.contains(&"create_agent".to_owned()));
    assert!(!reviewer.tools().await.contains(&"create_agent".to_owned()));
    let create = json!({ "project": "setup", "spec": "say hello" });
    assert_eq!(reviewer.call("create_agent", create).await["code"], "FORBIDDEN");
    reviewer.close().await;
    manager.close().await;
    let list = program.json(&["--json", "token", "list"]).await;
    let tokens = list["tokens"].as_array().unwrap().iter();
    let ours: Vec<_> = tokens.filter(|token| token["name"] == "stdio-reviewer").collect();
    assert_eq!((ours.len(), ours[0]["revoked_at"].is_string()), (1, true), "{ours:?}");
    let more = told(&program, &program.run(&["stdio", "--as-role", "operator"]).await);
    assert!(more.starts_with("exit 2\nerror: role 'operator' is for operators"), "{more}");
    let unknown = told(&program, &program.run(&["stdio", "--as-role", "nobody"]).await);
    assert!(unknown.starts_with("exit 3\n"), "{unknown}");
    let both = program.clone().variable("FLEET_TOKEN", "x").run(&["stdio", "--as-role", "coder"]).await;
    assert!(told(&program, &both).contains("omit one of them"));
    interrupt(server).await;
}

#[tokio::test]
async fn a_server_that_falls_is_there_again_for_the_next_call_and_one_that_was_stopped_is_not() {
    let coder = stub(Pace::Instant).await;
    let program = Program::on(&coder).variable("MCP_SERVER_PORT", "0");
    let mut bridge = Bridge::open(&program, &[]).await;
    let fallen = server_file(&program.data_dir()).expect("it serves");
    kill(fallen.pid);
    let address = format!("127.0.0.1:{}", fallen.url.port().unwrap());
    eventually("it has fallen", async || tokio::net::TcpStream::connect(&address).await.is_err()).await;
    assert_eq!(bridge.call("fleet_status", json!({})).await["capacity"]["used"], 0);
    assert_ne!(server_file(&program.data_dir()).expect("it serves again").pid, fallen.pid);
    assert!(program.run(&["down"]).await.status.success());
    let refused = bridge.ask("tools/call", json!({ "name": "fleet_status", "arguments": {} })).await;
    let directory = program.data_dir();
    let remedy = format!("Start it with 'fleet-mcp --data-dir {} up', then call again.", directory.display());
    assert_eq!(refused["error"]["data"]["next_action"], remedy.as_str());
    assert_eq!(server_file(&directory), None);
    bridge.close().await;
}
