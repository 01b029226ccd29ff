//! Ways to call the server: raw HTTP in either era, rmcp's own client, and stdio through the bridge.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use fleet_mcp::mcp::bridge::{BridgeError, BridgeOptions, Locator, ServerLocation, bridge_between};
use reqwest::RequestBuilder;
use rmcp::model::{CallToolRequestParams, ClientConfig, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// A protocol era, by the version spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Era {
    Sessions,
    Stateless,
}

impl Era {
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::Sessions => "2025-06-18",
            Self::Stateless => "2026-07-28",
        }
    }

    /// A request as a client of this era writes it.
    pub(super) fn request(self, id: u64, method: &str, mut params: Value) -> Value {
        if self == Self::Stateless {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(self.version());
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// The request that opens a conversation.
    pub(super) fn opening(self) -> Value {
        match self {
            Self::Stateless => self.request(0, "server/discover", json!({})),
            Self::Sessions => {
                let client = json!({ "name": "test", "version": "1" });
                let params =
                    json!({ "protocolVersion": self.version(), "capabilities": {}, "clientInfo": client });
                self.request(0, "initialize", params)
            }
        }
    }
}

/// Raw JSON-RPC over HTTP.
#[derive(Clone)]
pub(super) struct Http {
    http: reqwest::Client,
    url: String,
    token: String,
    era: Era,
}

impl Http {
    pub(super) fn new(url: &str, token: &str, era: Era) -> Self {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { http, url: url.to_owned(), token: token.to_owned(), era }
    }

    /// The result of a tool call: structured content, which the text must repeat.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        told(&answer["result"])
    }

    /// The answer to a request, result or error.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Value {
        let mut messages = self.messages(method, params).await;
        messages.pop_back().expect("an answer")
    }

    /// All that comes back for a request, the answer last.
    pub(super) async fn messages(&self, method: &str, params: Value) -> VecDeque<Value> {
        let response = self.post(&self.era.request(7, method, params)).send().await.unwrap();
        let body = response.text().await.unwrap();
        match serde_json::from_str(&body) {
            Ok(message) => VecDeque::from([message]),
            Err(_) => body.lines().filter_map(|line| line.strip_prefix("data: ")).map(parse).collect(),
        }
    }

    /// A request with the headers of its era, for a test to change before sending.
    pub(super) fn post(&self, message: &Value) -> RequestBuilder {
        let request = self.http.post(&self.url).bearer_auth(&self.token).json(message);
        let request = request.header("Accept", "application/json, text/event-stream");
        let request = request.header("MCP-Protocol-Version", self.era.version());
        let request = request.header("Mcp-Method", message["method"].as_str().unwrap());
        match message["params"]["name"].as_str() {
            Some(name) => request.header("Mcp-Name", name),
            None => request,
        }
    }
}

/// rmcp's own client.
pub(super) struct Rmcp(RunningService<RoleClient, ClientConfig>);

impl Rmcp {
    pub(super) async fn connect(url: &str, token: &str, era: Era) -> Self {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let mode = match era {
            Era::Sessions => ClientLifecycleMode::Initialize,
            Era::Stateless => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
            }
        };
        Self(ClientConfig::default().serve_with_lifecycle(transport, mode).await.unwrap())
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.0.peer().call_tool(request).await.unwrap();
        told(&serde_json::to_value(result).unwrap())
    }
}

/// What is known of the server's place, look by look; after that it is nowhere.
#[derive(Debug)]
struct Looks(Mutex<VecDeque<ServerLocation>>);

impl Locator for Looks {
    fn locate(&self) -> ServerLocation {
        self.0.lock().unwrap().pop_front().unwrap_or(ServerLocation::Nowhere)
    }

    fn remedy(&self) -> String {
        "Start it with 'fleet-mcp up', then call again.".to_owned()
    }
}

/// A program's standard input and output, joined to the server by the bridge.
pub(super) struct Stdio {
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    bridge: JoinHandle<Result<(), BridgeError>>,
    era: Era,
    n_sent: u64,
}

impl Stdio {
    pub(super) fn start(url: &str, token: &str, era: Era) -> Self {
        Self::start_with(url, token, era, Vec::new())
    }

    /// The same for a server that may be found elsewhere later.
    pub(super) fn start_with(url: &str, token: &str, era: Era, looks: Vec<ServerLocation>) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (output, input) = tokio::io::split(ours);
        let (read, write) = tokio::io::split(theirs);
        let options = BridgeOptions {
            url: url.parse().unwrap(),
            token: token.to_owned().into(),
            directory: std::env::current_dir().unwrap(),
            locator: Arc::new(Looks(Mutex::new(looks.into()))),
        };
        let bridge = tokio::spawn(async move { bridge_between(options, read, write).await });
        Self { input: Some(input), output: BufReader::new(output).lines(), bridge, era, n_sent: 0 }
    }

    pub(super) async fn open(mut self) -> Self {
        self.send(&self.era.opening()).await;
        assert!(self.next().await["result"]["capabilities"]["tools"].is_object());
        self
    }

    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id);
        told(&answer["result"])
    }

    /// Sends a call without waiting for its answer.
    pub(super) async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.n_sent += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        self.send(&self.era.request(self.n_sent, "tools/call", params)).await;
        self.n_sent
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(super) async fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(super) async fn next(&mut self) -> Value {
        parse(&self.output.next_line().await.unwrap().expect("a line"))
    }

    /// Closes the input and returns what was still to come once the bridge has ended.
    pub(super) async fn finish(mut self) -> Vec<Value> {
        self.input.take().expect("the input is open").shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest.push(parse(&line));
        }
        self.bridge.await.unwrap().unwrap();
        rest
    }
}

/// What a tool result says: the JSON that text and structure share, or that of an error, which has the text alone.
fn told(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"));
    assert_eq!(result["content"], json!([{ "type": "text", "text": text }]), "{result}");
    let structured = result.get("structuredContent");
    match result["isError"].as_bool() {
        Some(true) => {
            assert_eq!(structured, None, "clients check it against the outputSchema and then drop the error");
            json!({ "error": parse(text) })
        }
        Some(false) | None => {
            assert_eq!(structured.map(Value::to_string).as_deref(), Some(text), "{result}");
            parse(text)
        }
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}
