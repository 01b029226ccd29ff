//! The command line as a process, against a mock server that plays the REST API.

mod answers;
mod changing;
mod doctor;
mod failing;
mod operations;
mod reading;
mod stopping;
mod watching;
mod working;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::CommandCargoExt;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockBuilder, MockServer, ResponseTemplate};

const TOKEN: &str = "fleet_of-the-operator";

/// A data directory, and the server it names.
struct Rig {
    directory: TempDir,
    server: MockServer,
}

impl Rig {
    /// A server that answers nothing yet, found by `server.json` like a real one.
    async fn start() -> Self {
        let rig = Self { directory: private_directory(), server: MockServer::start().await };
        rig.write_server_file(std::process::id(), env!("CARGO_PKG_VERSION"));
        rig.write_private("operator.token", TOKEN);
        rig
    }

    fn write_server_file(&self, pid: u32, version: &str) {
        self.write_private("server.json", &server_file(&self.server.uri(), pid, version));
    }

    fn write_private(&self, name: &str, text: &str) {
        let file = self.directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        set_mode(&file, 0o600);
    }

    /// Answers a call made with the operator's token.
    async fn answers(&self, call: &str, body: &impl Serialize) {
        let answer = ResponseTemplate::new(200).set_body_json(body);
        authorized(call).respond_with(answer).mount(&self.server).await;
    }

    async fn refuses(&self, call: &str, status: u16, body: &Value) {
        let answer = ResponseTemplate::new(status).set_body_json(body);
        authorized(call).respond_with(answer).mount(&self.server).await;
    }

    fn command(&self, line: &str) -> Command {
        command(self.directory.path(), line)
    }

    /// Runs a command line and tells everything it did, without what differs from run to run.
    fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        self.told(line, &output)
    }

    fn told(&self, line: &str, output: &Output) -> String {
        told(line, output).replace(&self.server.uri(), "[URL]").replace(&self.data_dir(), "[DATA]")
    }

    fn data_dir(&self) -> String {
        self.directory.path().display().to_string()
    }

    /// Method, path with query and body of every request so far.
    async fn requests(&self) -> Vec<String> {
        let received = self.server.received_requests().await.unwrap_or_default();
        received
            .iter()
            .map(|request| {
                let query = request.url.query().map(|query| format!("?{query}")).unwrap_or_default();
                let body = String::from_utf8_lossy(&request.body);
                format!("{} {}{query} {body}", request.method, request.url.path()).trim_end().to_owned()
            })
            .collect()
    }
}

fn authorized(call: &str) -> MockBuilder {
    let (verb, route) = call.split_once(' ').unwrap();
    let bearer = format!("Bearer {TOKEN}");
    Mock::given(method(verb))
        .and(path(format!("/api/v1{route}")))
        .and(header("authorization", bearer.as_str()))
}

fn server_file(url: &str, pid: u32, version: &str) -> String {
    json!({ "url": url, "mcp_url": format!("{url}/mcp"), "pid": pid, "version": version }).to_string()
}

/// Nothing of the caller's environment but the way to git.
fn command(data_directory: &Path, line: &str) -> Command {
    let mut command = Command::cargo_bin("fleet-mcp").unwrap();
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("FLEET_DATA_DIR", data_directory).args(arguments(line));
    command.stdin(std::process::Stdio::null());
    command
}

/// Arguments as a shell would split them, where `'…'` is one.
fn arguments(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate().flat_map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    parts.collect()
}

fn told(line: &str, output: &Output) -> String {
    let code = output.status.code().map_or("a signal".to_owned(), |code| code.to_string());
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    format!("$ fleet-mcp {line}\n--- stdout\n{stdout}--- stderr\n{stderr}--- exit {code}\n")
}

/// An address where nothing listens.
fn dead_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Under a short path, so that tables cut nothing because of it.
fn private_directory() -> TempDir {
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    set_mode(directory.path(), 0o700);
    directory
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
