//! The real Claude Code and Codex doing tasks by exec: as their role, with the fleet's tools, verified and counted.

use fleet_mcp::domain::budget::RAISE_BUDGET;
use reqwest::Method;
use serde_json::{Value, json};

use crate::connect::real_clients::{variables_of_claude, write_provider};
use crate::harness::{ModelEndpoint, Program, Turn, Up, error_of, eventually, json_in, real_cli};

const ANSWER: &str = "Hello is committed.";
const NOTES: &str = "Mind the canary in this repository.";

/// Edits and commits; waits before that for a sign beside the repository, so that a test can do something meanwhile.
fn edit(subject: &str) -> String {
    format!(
        "touch ../begun; until [ -e ../go ]; do sleep 0.05; done; echo hello >> hello.txt && git add hello.txt \
         && git -c user.name=Ann -c user.email=ann@example.test commit -qm '{subject}' && git rev-parse HEAD"
    )
}

/// The runner of the workspace plays the first turn with what it was started with; the rest is the task's.
fn script() -> Vec<Turn> {
    vec![
        Turn::say("Ready."),
        Turn::shell(&edit("Say hello")),
        Turn::fleet("set_agent_metadata", |earlier| {
            let commit = earlier[0].lines().rev().find(|line| line.trim().len() == 40).unwrap_or("none");
            json!({ "key": "fleet_mcp_commit", "value": commit.trim() })
        }),
        Turn::say(ANSWER),
    ]
}

/// A server with an agent whose project names this engine, and an app that its workspaces do not have.
async fn started(program: &Program, engine: &str) -> Up {
    let projects = program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    let file =
        format!("name = \"setup\"\ntemplate = \"setup\"\napp_slug = \"none\"\nengine = \"{engine}\"\n");
    std::fs::write(projects.join("setup.toml"), file).unwrap();
    let up = Up::start(program).await;
    up.agent("one").await;
    // The usage of its runner arrives late; usage seen after it is newer.
    eventually("the runner's count is seen", async || {
        up.show("one").await["usage"]["input_tokens"].as_u64() > Some(0)
    })
    .await;
    for notes in ["CLAUDE.md", "AGENTS.md"] {
        std::fs::write(up.workspace("one").join("repo").join(notes), NOTES).unwrap();
    }
    commit_all(&up);
    up
}

fn git(up: &Up, arguments: &[&str]) -> String {
    let repository = up.workspace("one").join("repo");
    let told = std::process::Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    String::from_utf8(told.stdout).unwrap().trim().to_owned()
}

fn commit_all(up: &Up) {
    git(up, &["add", "."]);
    git(up, &["-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "-qm", "notes"]);
}

async fn give(up: &Up, text: &str) {
    let task = json!({ "task_description": text });
    let path = "/api/v1/agents/one/tasks";
    let reply = up.call_as(&up.operator_token(), Method::POST, path, &task).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
}

fn go(up: &Up) {
    std::fs::write(up.workspace("one").join("go"), "").unwrap();
}

async fn begun(up: &Up) {
    let sign = up.workspace("one").join("begun");
    eventually("the engine is at work", async || sign.exists()).await;
}

/// The agent's last task, once it is the one that was given and has ended.
async fn ended(up: &Up, text: &str) -> Value {
    eventually("the task has ended", async || {
        let shown = up.show("one").await;
        shown["status"] == "idle" && shown["last_task"]["message"] == text
    })
    .await;
    up.show("one").await
}

fn verified(up: &Up) -> Value {
    json!({ "commit": git(up, &["rev-parse", "HEAD"]), "new_commit": true, "pushed": false, "clean": true })
}

/// One task by exec; then everything is where it is for tasks through a runner.
async fn assert_works(program: &Program, model: &ModelEndpoint, engine: &str) {
    let up = started(program, engine).await;
    give(&up, "Say hello in a file.").await;
    begun(&up).await;
    let arguments = command_lines(&up.token_of("one"));
    go(&up);
    let shown = ended(&up, "Say hello in a file.").await;
    let task = &shown["last_task"];
    assert_eq!((&task["state"], &task["outcome"]), (&json!("done"), &json!(ANSWER)), "{shown}");
    assert_eq!(task["verified"], verified(&up));
    let history = up.get("/api/v1/agents/one/history?kind=task").await["tasks"][0].clone();
    assert_eq!((&history["outcome"], &history["verified"]), (&json!(ANSWER), &verified(&up)));
    assert_eq!(git(&up, &["log", "-1", "--format=%s"]), "Say hello");
    assert_eq!(arguments, Vec::<String>::new(), "the token is in no command line");
    let results = model.results();
    assert_eq!(
        json_in(&results[1])["metadata"]["fleet_mcp_commit"],
        task["verified"]["commit"],
        "{results:?}"
    );
    let told = model.requests().iter().map(|request| request.body.to_string()).collect::<Vec<_>>();
    let asked = told.iter().find(|body| body.contains("Say hello in a file.")).unwrap();
    assert!(asked.contains(NOTES), "{asked}");
    assert!(asked.contains("You are a software engineer working alone in one workspace"), "{asked}");
    assert_counted(&shown);
    assert_eq!(model.n_played(), 4, "{told:?}");
    let audit = program.json(&["--json", "audit"]).await;
    let rows = audit["entries"].as_array().unwrap().iter();
    let ours: Vec<_> = rows.filter(|row| row["action"] == "set_agent_metadata").collect();
    assert_eq!((ours.len(), &ours[0]["principal"]), (1, &json!("one")));
}

/// By us: the runner did the spec alone, so its own figures are lower.
fn assert_counted(shown: &Value) {
    let claimed = shown["metadata"]["fleet_mcp_usage"].as_str().unwrap_or("{}");
    let claimed = serde_json::from_str::<Value>(claimed).unwrap()["input_tokens"].as_u64();
    assert!(shown["usage"]["input_tokens"].as_u64() > claimed.max(Some(0)), "{shown}");
}

/// Processes of this machine whose arguments hold the text.
fn command_lines(text: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let bytes = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    });
    all.filter(|line| line.contains(text)).collect()
}

/// Kill -9 of the control plane in the middle of the run: it is not run again, and it is verified all the same.
async fn assert_survives(program: &Program, model: &ModelEndpoint, engine: &str) {
    let up = started(program, engine).await;
    give(&up, "Say hello in a file.").await;
    begun(&up).await;
    let up = Up::start(&up.killed().await).await;
    go(&up);
    let shown = ended(&up, "Say hello in a file.").await;
    let task = &shown["last_task"];
    assert_eq!((&task["state"], &task["outcome"]), (&json!("done"), &json!(ANSWER)), "{shown}");
    assert_eq!(task["verified"], verified(&up));
    assert_eq!(git(&up, &["log", "--format=%s"]).lines().filter(|line| *line == "Once").count(), 1);
    assert_eq!(model.n_played(), 3);
    assert_counted(&shown);
}

fn once() -> Vec<Turn> {
    vec![Turn::say("Ready."), Turn::shell(&edit("Once")), Turn::say(ANSWER)]
}

fn with_claude(model: &ModelEndpoint) -> Option<Program> {
    let cli = real_cli("claude")?;
    let program = Program::without_coder().variable("PATH", cli.path.to_str().unwrap());
    Some(
        variables_of_claude(model)
            .into_iter()
            .fold(program, |program, (name, value)| program.variable(name, value)),
    )
}

fn with_codex(model: &ModelEndpoint) -> Option<Program> {
    let cli = real_cli("codex")?;
    let program = Program::without_coder().variable("PATH", cli.path.to_str().unwrap());
    write_provider(&program.directory.path().join(".codex"), &model.url);
    Some(program.variable("OPENAI_MODEL_KEY", "none"))
}

#[tokio::test]
async fn claude_code_works_by_exec_as_it_does_under_a_runner() {
    let model = ModelEndpoint::start(script()).await;
    let Some(program) = with_claude(&model) else { return };
    assert_works(&program, &model, "claude").await;
}

#[tokio::test]
async fn codex_works_by_exec_as_it_does_under_a_runner() {
    let model = ModelEndpoint::start(script()).await;
    let Some(program) = with_codex(&model) else { return };
    assert_works(&program, &model, "codex").await;
}

#[tokio::test]
async fn claude_code_is_not_run_again_after_a_kill_and_its_work_is_verified() {
    let model = ModelEndpoint::start(once()).await;
    let Some(program) = with_claude(&model) else { return };
    assert_survives(&program, &model, "claude").await;
}

#[tokio::test]
async fn codex_is_not_run_again_after_a_kill_and_its_work_is_verified() {
    let model = ModelEndpoint::start(once()).await;
    let Some(program) = with_codex(&model) else { return };
    assert_survives(&program, &model, "codex").await;
}

#[tokio::test]
async fn usage_of_runs_counts_against_the_budget_and_no_agent_can_change_it() {
    let script = ["Ready.", "One.", "Two."].map(Turn::say);
    let model = ModelEndpoint::start(script.into()).await;
    let Some(program) = with_claude(&model) else { return };
    // An answer of the scripted model is fifteen tokens; the first one is the runner's.
    let program = program.with_settings("[agents]\nmax_tokens = 45\n");
    let up = started(&program, "claude").await;
    for text in ["first", "second"] {
        give(&up, text).await;
        assert_eq!(ended(&up, text).await["last_task"]["state"], "done");
    }
    let claim = json!({ "key": "fleet_mcp_usage", "value": "{}" });
    let refused = up.tool_as(&up.token_of("one"), "set_agent_metadata", &claim).await;
    assert_eq!(error_of(&refused)["code"], "INVALID_INPUT", "{refused}");
    give(&up, "third").await;
    let task = ended(&up, "third").await["last_task"].clone();
    let outcome = format!("not started: the budget is used up (45 of 45 tokens used); {RAISE_BUDGET}");
    assert_eq!((&task["state"], &task["outcome"]), (&json!("failed"), &json!(outcome)));
    assert_eq!(model.n_played(), 3);
}
