//! A program inside a workspace that prints all it can see: no token but its own is anywhere in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::routing::any;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually, processes_under, skipped, trusted_directory};

/// Environment, every file of the home and of the data directory by every way that leads there, what other processes
/// were started with and hold in their memory, and what everything it can call answers.
const DUMP: &str = r#"
say() { printf '\n== %s\n' "$1"; }
say "myself $$"
say environment; env
say files
for root in "$HOME" "$data" "$FLEET_AGENT_DIR" "$PWD" "${XDG_RUNTIME_DIR:-/nowhere}/fleet-mcp" /tmp/fleet-mcp-*; do
    # Bounded: one of these files is what this program prints.
    find "$root" -type f -size -2000k -exec head -q -c 2000000 {} + 2>/dev/null
done
for file in coder.token operator.token manager.token workspaces/heron/fleet/token coder/deployment.json; do
    cat "$data/$file" "$PWD/../../../$file" /proc/[0-9]*/root"$data/$file" /proc/[0-9]*/cwd/../../../"$file" 2>/dev/null
done
say processes
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'
say maps; grep -ls . /proc/[0-9]*/maps
say calls
token=$(cat "$FLEET_AGENT_DIR/token")
for path in /api/v1/agents /api/v1/agents/otter /api/v1/agents/heron /api/v1/status /api/v1/projects /api/v1/tokens \
    /api/v1/audit /api/v1/rescues /api/v1/doctor /metrics; do
    say "$path"; curl -s -H "Authorization: Bearer $token" "$(cat "$FLEET_AGENT_DIR/url")$path"
done
for path in status messages fleet/state; do
    say "$path"; curl -s --unix-socket "$(ls "$FLEET_AGENT_DIR"/*.sock)" "http://x/$path"
done
say coder; curl -s "$CODER_AGENT_URL/api/v2/organizations"; curl -s "$CODER_AGENT_URL/api/v2/workspaces"
"#;

/// What must never be seen, each with a name that may be printed.
struct Canaries(Vec<(&'static str, String)>);

impl Canaries {
    fn of(up: &Up) -> Self {
        let read = |name: &str| std::fs::read_to_string(up.program.data_dir().join(name)).unwrap();
        Self(vec![
            ("the Coder session token", up.coder_token()),
            ("the operator's token", up.operator_token()),
            ("the managers' token", read("manager.token").trim().to_owned()),
            ("another agent's token", up.token_of("heron")),
            ("another agent's token for Coder", coder_agent_tokens(up, "heron").remove(0).1),
        ])
    }

    fn found_in(&self, text: &str) -> Vec<&'static str> {
        self.0.iter().filter(|(_, canary)| text.contains(canary)).map(|(name, _)| *name).collect()
    }

    fn all(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

/// What processes of one agent were started with.
fn environments(up: &Up, name: &str) -> Vec<(u32, String)> {
    let mark = format!("CODER_WORKSPACE_NAME={name}");
    let processes = processes_under(up.program.directory.path()).into_iter().filter_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        Some((pid, String::from_utf8_lossy(&environment).into_owned()))
    });
    processes.filter(|(_, text)| text.split('\0').any(|variable| variable == mark)).collect()
}

/// The agents' own processes alone know their tokens for Coder.
fn coder_agent_tokens(up: &Up, name: &str) -> Vec<(u32, String)> {
    let token = |(pid, text): (u32, String)| {
        let token = text.split('\0').find_map(|variable| variable.strip_prefix("CODER_AGENT_TOKEN="))?;
        Some((pid, token.to_owned()))
    };
    environments(up, name).into_iter().filter_map(token).collect()
}

fn runners(up: &Up, name: &str) -> Vec<u32> {
    coder_agent_tokens(up, name).into_iter().map(|(pid, _)| pid).collect()
}

/// Says so and returns true where this cannot be shown.
async fn is_skipped(up: &Up) -> bool {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        skipped("the dump program calls with curl, which is not installed");
        return true;
    }
    let doctor = up.get("/api/v1/doctor").await;
    let mut checks = doctor["checks"].as_array().unwrap().iter();
    let isolation = checks.find(|check| check["name"] == "isolation").unwrap();
    if isolation["ok"] != true {
        skipped(&format!("agents cannot be isolated on this machine: {}", isolation["finding"]));
    }
    isolation["ok"] != true
}

async fn two_agents() -> Up {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("heron").await;
    up.agent("otter").await;
    // The agent calls the fleet, and the fleet calls into the workspace, so that all leaks are visible.
    let note = json!({ "key": "fleet_mcp_note", "value": "x" });
    up.tool_as(&up.token_of("otter"), "set_agent_metadata", &note).await;
    up
}

#[tokio::test]
async fn a_program_in_a_workspace_sees_no_token_but_its_own() {
    let up = two_agents().await;
    if is_skipped(&up).await {
        return;
    }
    let script = format!("data={}\n{DUMP}", up.program.data_dir().display());
    let output = up.exec("otter", &script).await;
    let dump = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.truncated);
    for section in ["environment", "files", "processes", "calls", "coder"] {
        assert!(dump.contains(&format!("== {section}\n")), "{section} is missing: {dump}");
    }
    // It did see what it is meant to see, so it would have seen the others too.
    assert!(dump.contains(&up.token_of("otter")) && dump.contains(r#""name":"otter""#), "{dump}");
    assert_eq!(Canaries::of(&up).found_in(&dump), Vec::<&str>::new());

    // It can open no memory but its own.
    let has_maps = |pid: &u32| dump.contains(&format!("\n/proc/{pid}/maps\n"));
    let own = dump.lines().find_map(|line| line.strip_prefix("== myself ")).unwrap().parse().unwrap();
    let others = runners(&up, "heron").into_iter().chain(up.child.id());
    let seen: Vec<u32> = others.chain([own]).filter(has_maps).collect();
    assert_eq!(seen, [own]);
}

/// The same program outside of the walls finds everything: else it would prove nothing.
#[tokio::test]
async fn the_same_program_outside_of_a_workspace_sees_every_token() {
    let up = two_agents().await;
    if is_skipped(&up).await {
        return;
    }
    let fleet = up.workspace("otter").join("fleet");
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(DUMP).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("data", up.program.data_dir()).env("FLEET_AGENT_DIR", fleet).kill_on_drop(true);
    let output = command.current_dir(up.workspace("otter").join("repo")).output().await.unwrap();
    let dump = String::from_utf8_lossy(&output.stdout);
    let canaries = Canaries::of(&up);
    assert_eq!(canaries.found_in(&dump), canaries.all());
}

/// What a workspace could do to a file, told when it could.
const TAMPER: &str = r#"
for file in "$store" "$store-wal" "$store-shm"; do
    cat "$file" >/dev/null && echo "read $file"
    (echo x >>"$file") && echo "written $file"
    ln "$file" "$file.other" && echo "linked $file"
    rm "$file" && echo "removed $file"
    mv "$file" "$file.other" && echo "moved $file"
done
echo tried
"#;

#[tokio::test]
async fn a_store_outside_of_the_data_directory_is_closed_to_workspaces_too() {
    let program = Program::without_coder();
    let elsewhere = program.directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let (store, link) = (elsewhere.join("fleet.db"), elsewhere.join("by-another-name.db"));
    std::os::unix::fs::symlink(&store, &link).unwrap();
    let up = Up::start(&program.variable("MCP_DATABASE_PATH", link.to_str().unwrap())).await;
    up.agent("otter").await;
    if is_skipped(&up).await {
        return;
    }
    let script = format!("store={}\n{TAMPER}", store.display());
    let output = up.exec("otter", &script).await;
    let tried = |output: &[u8]| String::from_utf8_lossy(output).into_owned();
    assert_eq!(tried(&output.stdout), "tried\n");
    let mut names: Vec<_> =
        std::fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| name.to_string_lossy().starts_with("fleet.db"));
    names.sort();
    assert_eq!(names, ["fleet.db", "fleet.db-shm", "fleet.db-wal"]);
    assert_eq!(up.get("/api/v1/tokens").await["tokens"][0]["name"], "operator");

    // Outside of the walls there is something to be read.
    let read = std::process::Command::new("cat").arg(&store).output().unwrap();
    assert!(read.stdout.starts_with(b"SQLite format 3"));
}

type Seen = Arc<Mutex<Vec<String>>>;

/// An app that notes all of a request and answers as an idle agent would.
async fn noting(State(seen): State<Seen>, request: Request) -> Json<Value> {
    let (head, body) = request.into_parts();
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: BTreeMap<String, String> =
        head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    seen.lock().unwrap().push(format!("{} {} {headers:?} {body:?}", head.method, head.uri));
    Json(json!({ "status": "stable", "agent_type": "custom", "messages": [], "ok": true }))
}

#[tokio::test]
async fn requests_of_the_fleet_into_a_workspace_hold_no_token() {
    let up = two_agents().await;
    let seen = Seen::default();
    let socket = trusted_directory(&up.program.data_dir(), "otter").join("agent.sock");
    std::fs::remove_file(&socket).unwrap();
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let app = Router::new().fallback(any(noting)).with_state(Arc::clone(&seen));
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let task = json!({ "task_description": "say something" });
    up.post("/api/v1/agents/otter/tasks", &task).await;
    let said = |word: &str| seen.lock().unwrap().iter().any(|request| request.contains(word));
    eventually("the task is brought", async || said("say something")).await;
    let requests = seen.lock().unwrap().join("\n");
    let mut canaries = Canaries::of(&up);
    canaries.0.push(("its own token", up.token_of("otter")));
    assert_eq!(canaries.found_in(&requests), Vec::<&str>::new(), "{requests}");
    serving.abort();
}
