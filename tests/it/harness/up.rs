//! The real program on an embedded Coder of its own: a fleet whose agents are real processes in real directories.

use std::path::PathBuf;
use std::process::Stdio;

use fleet_mcp::coder::Client;
use fleet_mcp::coder::exec::{Command, ExecError, Output};
use fleet_mcp::coder::wire::Workspace;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Child;
use uuid::Uuid;

use super::{Api, Program, Reply, client, eventually, kill, processes_under, read, server_file};

/// A server started by `up`; dropping it ends it and all its agents.
pub(crate) struct Up {
    pub(crate) program: Program,
    pub(crate) child: Child,
    pub(crate) url: String,
    api: Api,
}

impl Up {
    pub(crate) async fn start(program: &Program) -> Self {
        let mut command = tokio::process::Command::from(program.command(&["up", "--port", "0"]));
        let path = program.directory.path().join("server.log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        eventually("the server announces itself", async || {
            assert!(child.try_wait().unwrap().is_none(), "the server ended: {}", program.log());
            server_file(&program.data_dir()).is_some_and(|file| Some(file.pid) == child.id())
        })
        .await;
        let url = server_file(&program.data_dir()).unwrap().url.as_str().trim_end_matches('/').to_owned();
        Self { program: program.clone(), child, api: Api::new(&url, ""), url }
    }

    /// In a git repository of its own, which is the project `here`.
    pub(crate) async fn start_here(program: &Program) -> Self {
        Self::start(&program.within(&program.repository())).await
    }

    /// Dies as `kill -9` would have it; its agents run on.
    pub(crate) async fn killed(mut self) -> Program {
        self.child.kill().await.unwrap();
        let program = self.program.clone();
        std::mem::forget(self);
        program
    }

    /// Waits until the server has died by itself; its agents run on.
    #[cfg(feature = "test-hooks")]
    pub(crate) async fn died(mut self) -> Program {
        let status = tokio::time::timeout(std::time::Duration::from_secs(30), self.child.wait()).await;
        let status = status.expect("the server dies").unwrap();
        assert_eq!(status.code(), None, "killed, not ended: {}", self.program.log());
        let program = self.program.clone();
        std::mem::forget(self);
        program
    }

    pub(crate) fn operator_token(&self) -> String {
        std::fs::read_to_string(self.program.data_dir().join("operator.token")).unwrap().trim().to_owned()
    }

    pub(crate) async fn call_as(&self, token: &str, method: Method, path: &str, body: &Value) -> Reply {
        let request = self.api.bare(method.clone(), path).bearer_auth(token);
        let request = if body.is_null() { request } else { request.json(body) };
        let reply = read(request).await;
        reply.unwrap_or_else(|error| panic!("{method} {path}: {error:?}; the server: {}", self.program.log()))
    }

    pub(crate) async fn get_as(&self, token: &str, path: &str) -> Reply {
        self.call_as(token, Method::GET, path, &Value::Null).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let reply = self.get_as(&self.operator_token(), path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.call_as(&self.operator_token(), Method::POST, path, body).await;
        assert!(reply.status < 300, "{path}: {}", reply.body);
        reply.body
    }

    /// Deletes an agent and waits for its end.
    pub(crate) async fn delete(&self, name: &str, query: &str) -> Value {
        let path = format!("/api/v1/agents/{name}?wait_seconds=45{query}");
        let reply = self.call_as(&self.operator_token(), Method::DELETE, &path, &Value::Null).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body
    }

    /// The answer, or nothing when the server dies over it.
    #[cfg(feature = "test-hooks")]
    pub(crate) async fn call_or_nothing(&self, token: &str, path: &str, body: &Value) -> Option<Value> {
        let request = self.api.bare(Method::POST, path).bearer_auth(token).json(body);
        read(request).await.ok().map(|reply| reply.body)
    }

    /// One tool called over MCP by the holder of the token.
    pub(crate) async fn tool_as(&self, token: &str, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.mcp_as(token, ("tools/call", tool), params).await
    }

    /// The plain answer to a tool call, for tests of what is refused before there is a result.
    pub(crate) async fn tool_reply_as(&self, token: &str, tool: &str, arguments: &Value) -> Reply {
        let params = json!({ "name": tool, "arguments": arguments });
        read(self.mcp_request(token, ("tools/call", tool), params)).await.unwrap()
    }

    /// The tools that the holder of the token sees.
    pub(crate) async fn tools_as(&self, token: &str) -> Vec<Value> {
        let listed = self.mcp_as(token, ("tools/list", ""), json!({})).await;
        listed["tools"].as_array().unwrap().clone()
    }

    /// The first word of progress of a tool call, whose client then leaves.
    pub(crate) async fn first_progress(&self, token: &str, tool: &str, arguments: &Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let request = self.mcp_request(token, ("tools/call", tool), params);
        let mut answer = request.send().await.unwrap();
        let mut text = String::new();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text.push_str(&String::from_utf8_lossy(&chunk));
            let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let message = |event: Value| event["params"]["message"].as_str().map(str::to_owned);
            if let Some(told) = events.filter_map(message).next() {
                return told;
            }
        }
        panic!("there was no progress: {text}");
    }

    fn mcp_request(&self, token: &str, what: (&str, &str), params: Value) -> reqwest::RequestBuilder {
        mcp_request(&self.api, token, what, params)
    }

    async fn mcp_as(&self, token: &str, what: (&str, &str), params: Value) -> Value {
        let answer = mcp_answer(read(self.mcp_request(token, what, params)).await.unwrap().body);
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// An agent of an empty repository that is idle and has been given what it needs.
    pub(crate) async fn agent(&self, name: &str) {
        self.agent_with(json!({ "project": "setup", "spec": "say hello", "name": name })).await;
    }

    pub(crate) async fn agent_with(&self, mut request: Value) {
        request["wait_seconds"] = json!(45);
        let name = request["name"].as_str().unwrap().to_owned();
        self.post("/api/v1/agents", &request).await;
        self.provisioned(&name).await;
    }

    /// Waits until the agent rests and has what its newest start needs.
    pub(crate) async fn provisioned(&self, name: &str) {
        eventually("the agent is idle and has its files", async || {
            let agent = self.show(name).await;
            let written = self.agent_file(name, "provisioned.json").unwrap_or_default();
            let written: Value = serde_json::from_str(&written).unwrap_or_default();
            agent["status"] == "idle"
                && !agent["callback"].is_null()
                && written["generation"] == agent["generation"]
        })
        .await;
    }

    pub(crate) async fn show(&self, name: &str) -> Value {
        self.get(&format!("/api/v1/agents/{name}")).await["agent"].clone()
    }

    /// Starts, stops or restarts an agent and waits for it.
    pub(crate) async fn change(&self, name: &str, verb: &str) {
        self.post(&format!("/api/v1/agents/{name}/{verb}"), &json!({ "wait_seconds": 45 })).await;
    }

    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.program.data_dir().join("workspaces").join(name)
    }

    pub(crate) fn agent_file(&self, name: &str, file: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace(name).join("fleet").join(file)).ok()
    }

    pub(crate) fn token_of(&self, name: &str) -> String {
        self.agent_file(name, "token").expect("the agent has a token").trim().to_owned()
    }

    pub(crate) fn coder_token(&self) -> String {
        std::fs::read_to_string(self.program.data_dir().join("coder.token")).unwrap().trim().to_owned()
    }

    /// The address of its embedded Coder.
    fn coder_url(&self) -> String {
        let file = std::fs::read_to_string(self.program.data_dir().join("coder.json")).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        file["url"].as_str().unwrap().trim_end_matches('/').to_owned()
    }

    fn coder(&self) -> Client {
        client(&self.coder_url(), &self.coder_token())
    }

    async fn coder_workspace(&self, name: &str) -> Workspace {
        self.coder().workspace_by_name("me", name, fleet_mcp::coder::Deleted::Exclude).await.unwrap()
    }

    /// A build that its Coder is asked for, past the fleet.
    pub(crate) async fn build(
        &self,
        name: &str,
        transition: &str,
        wanted: fn(&Workspace) -> bool,
    ) -> Workspace {
        let id = self.coder_workspace(name).await.id;
        let api = Api::new(&self.coder_url(), &self.coder_token());
        let body = json!({ "transition": transition });
        let reply = api.post(&format!("/api/v2/workspaces/{id}/builds"), &body).await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        super::watched(&api, id, wanted).await
    }

    /// The log of the newest build.
    pub(crate) async fn build_log(&self, name: &str) -> String {
        let build = self.coder_workspace(name).await.latest_build.id;
        let api = Api::new(&self.coder_url(), &self.coder_token());
        api.get(&format!("/api/v2/workspacebuilds/{build}/logs")).await.body.to_string()
    }

    /// Runs a script inside an agent's workspace.
    pub(crate) async fn exec(&self, name: &str, script: &str) -> Output {
        self.try_exec(name, script).await.unwrap()
    }

    pub(crate) async fn try_exec(&self, name: &str, script: &str) -> Result<Output, ExecError> {
        let (coder, agent) = self.inside(name).await;
        let command = Command { output_limit: 64 << 20, ..Command::new(["sh", "-c", script]) };
        coder.exec(agent, &command).await
    }

    /// Its Coder, and the agent's id there.
    pub(crate) async fn inside(&self, name: &str) -> (Client, Uuid) {
        let workspace = self.coder_workspace(name).await;
        let mut agents = workspace.latest_build.resources.iter().flat_map(|resource| &resource.agents);
        (self.coder(), agents.next().expect("the workspace runs").id)
    }
}

/// One MCP request, not sent yet.
pub(crate) fn mcp_request(
    api: &Api,
    token: &str,
    (method, name): (&str, &str),
    mut params: Value,
) -> reqwest::RequestBuilder {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 7
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = api.bare(Method::POST, "/mcp").bearer_auth(token);
    let request = request.header("Accept", "application/json, text/event-stream");
    let request = request.header("MCP-Protocol-Version", "2026-07-28");
    let request = request.header("Mcp-Method", method);
    let request = if name.is_empty() { request } else { request.header("Mcp-Name", name) };
    request.json(&body)
}

/// The JSON-RPC answer of a response body: the last event of a stream, or the body itself.
pub(crate) fn mcp_answer(body: Value) -> Value {
    let mut events = body.as_str().into_iter().flat_map(|text| text.lines());
    let last = events.rfind(|line| line.starts_with("data: ")).map(|line| &line["data: ".len()..]);
    last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(body)
}

/// The error that a tool result carries in its text.
pub(crate) fn error_of(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {result}"))
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Some(pid) = self.child.id() {
            kill(pid);
        }
        processes_under(self.program.directory.path()).into_iter().for_each(kill);
    }
}
