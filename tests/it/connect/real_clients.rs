//! The real Claude Code and Codex as clients, set up by `connect` alone, driven by a scripted model.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{Left, home, interrupt, up};
use crate::harness::{ModelEndpoint, Program, RealCli, Turn, json_in, real_cli};

const PATIENCE: Duration = Duration::from_secs(120);

/// Looks at the fleet, makes an agent, looks at that very agent, and says so.
fn script() -> Vec<Turn> {
    vec![
        Turn::fleet("list_agents", |_| json!({})),
        Turn::fleet(
            "create_agent",
            |_| json!({ "project": "setup", "spec": "say hello", "wait_seconds": 40 }),
        ),
        Turn::fleet("show_agent", |earlier| json!({ "agent_name": json_in(&earlier[1])["agent"]["name"] })),
        Turn::say("The agent is there."),
    ]
}

/// A CLI that `connect` has set up, with a model that plays its part.
pub(super) struct Client<'a> {
    pub(super) cli: &'a RealCli,
    pub(super) name: &'a str,
    pub(super) program: &'a Program,
    pub(super) model: &'a ModelEndpoint,
}

impl Client<'_> {
    /// Runs the CLI to its end, with nothing of this machine's environment but what is given.
    pub(super) async fn run(&self, prompt: &str) -> Output {
        let work = home(self.program, "work");
        std::fs::create_dir_all(&work).unwrap();
        let mut command = tokio::process::Command::new(&self.cli.program);
        command.args(self.arguments()).current_dir(&work).env_clear().env("PATH", &self.cli.path);
        command.env("HOME", self.program.directory.path()).envs(variables(self.model));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(prompt.as_bytes()).await.unwrap();
        tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("the CLI ends").unwrap()
    }

    fn arguments(&self) -> Vec<&'static str> {
        let claude =
            "-p --output-format stream-json --verbose --permission-mode dontAsk --allowedTools mcp__fleet";
        let codex = "exec --json --skip-git-repo-check --disable plugins --disable apps -";
        let line = if self.name == "claude" { claude } else { codex };
        line.split(' ').collect()
    }
}

/// All that the model was told, against what the fleet now has.
async fn assert_played(program: &Program, model: &ModelEndpoint, output: &Output, path: &str) {
    let said =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert_eq!(model.n_played(), 4, "{said}");
    let paths: BTreeSet<String> = model.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths.into_iter().collect::<Vec<_>>(), [path]);
    let results: Vec<Value> = model.results().iter().map(|result| json_in(result)).collect();
    let name = &results[1]["agent"]["name"];
    let list = program.json(&["--json", "agents", "list"]).await;
    assert_eq!((&list["agents"][0]["name"], &list["total_count"]), (name, &json!(1)));
    assert_eq!((&results[0]["total_count"], &results[2]["agent"]["name"]), (&json!(0), name));
    assert!(said.contains("The agent is there."), "{said}");
}

/// A CLI that knows nothing but what `connect` has told it.
async fn assert_drives(name: &str, path: &str) {
    let Some(cli) = real_cli(name) else { return };
    let program = Program::without_coder();
    let _left = Left(&program);
    let server = up(&program, &[]).await;
    let model = ModelEndpoint::start(script()).await;
    write_provider(&home(&program, ".codex"), &model.url);
    assert!(program.run(&["connect", name]).await.status.success());
    let client = Client { cli: &cli, name, program: &program, model: &model };
    let output = client.run("Make an agent.").await;
    assert_played(&program, &model, &output, path).await;
    interrupt(server).await;
}

#[tokio::test]
async fn claude_code_connected_by_us_drives_the_fleet() {
    assert_drives("claude", "/v1/messages").await;
}

#[tokio::test]
async fn codex_connected_by_us_drives_the_fleet_unasked() {
    assert_drives("codex", "/v1/responses").await;
}

/// What points either CLI at the scripted model.
pub(super) fn variables(model: &ModelEndpoint) -> impl Iterator<Item = (&str, &str)> {
    variables_of_claude(model).into_iter().chain([("OPENAI_MODEL_KEY", "none")])
}

/// An environment in which Claude Code needs no account and calls no server but the model.
pub(crate) fn variables_of_claude(model: &ModelEndpoint) -> [(&str, &str); 4] {
    [
        ("ANTHROPIC_BASE_URL", model.url.as_str()),
        ("ANTHROPIC_API_KEY", "none"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
    ]
}

/// The user's own settings, which `connect` then adds to.
pub(crate) fn write_provider(directory: &Path, url: &str) {
    std::fs::create_dir_all(directory).unwrap();
    let text = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
         env_key = \"OPENAI_MODEL_KEY\"\n"
    );
    std::fs::write(directory.join("config.toml"), text).unwrap();
}
