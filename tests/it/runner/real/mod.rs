//! The real Claude Code and Codex under a runner, driven by a scripted model on loopback; skipped where missing.

mod conversations;
mod endings;
mod planted;

use std::path::Path;

use super::workspace::Workspace;
use crate::harness::{ModelEndpoint, RealCli, Turn, real_cli};

/// What the scripted model counts for each of its answers.
const STEP: u64 = 15;

/// A workspace whose engine is one of the CLIs, talking to a model that plays this script.
struct Scene {
    workspace: Workspace,
    model: ModelEndpoint,
    cli: RealCli,
}

impl Scene {
    /// None where the CLI is missing, which has then been said.
    async fn of(engine: &'static str, script: Vec<Turn>) -> Option<Self> {
        let cli = real_cli(engine)?;
        let model = ModelEndpoint::start(script).await;
        // No fleet is there to be told about.
        let workspace = Workspace::new().variable("FLEET_ENGINE", engine).variable("FLEET_BRIEFING_MS", "1");
        let mut workspace = workspace.variable("PATH", cli.path.to_str().unwrap());
        // A CLI that is asked to end takes a moment to write down what it used.
        workspace = workspace.variable("FLEET_INTERRUPT_MS", "20000");
        for (name, value) in variables(&model) {
            workspace = workspace.variable(name, &value);
        }
        write_provider(&workspace.repo().with_file_name(".codex"), &model.url);
        Some(Self { workspace, model, cli })
    }
}

/// The variables that point either CLI at the scripted model, and at no other server.
fn variables(model: &ModelEndpoint) -> [(&'static str, String); 4] {
    [
        ("ANTHROPIC_BASE_URL", model.url.clone()),
        ("ANTHROPIC_API_KEY", "key-of-the-user".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("OPENAI_MODEL_KEY", "key-of-the-user".to_owned()),
    ]
}

fn write_provider(codex_home: &Path, url: &str) {
    std::fs::create_dir_all(codex_home).unwrap();
    let provider = format!(
        "model = \"gpt-5\"\nmodel_provider = \"script\"\n[model_providers.script]\nname = \"script\"\n\
        base_url = \"{url}/v1\"\nwire_api = \"responses\"\nenv_key = \"OPENAI_MODEL_KEY\"\n"
    );
    std::fs::write(codex_home.join("config.toml"), provider).unwrap();
}
