//! One data directory under test: its program, its repository, its engine and the address of the server of the moment.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::watch;

use super::actions::NAMES;
use super::faults::FaultCounts;
use super::ledger::Ledger;
use super::report::keep;
use crate::harness::{Api, Program, Up, script};

/// A secret of the operator's environment that no agent may get.
pub(super) const CANARY: &str = "ghp_canary0canary0canary0canary0canary00";

pub(super) struct World {
    pub(super) program: Program,
    pub(super) repository: PathBuf,
    pub(super) ledger: Ledger,
    /// The server that serves now; none between a kill and the next start.
    address: watch::Sender<Option<String>>,
    pub(super) principals: Vec<Principal>,
    n_killed_runners: AtomicUsize,
}

/// A token and the name that the audit trail gives its holder.
#[derive(Debug, Clone)]
pub(super) struct Principal {
    pub(super) name: String,
    pub(super) token: String,
}

impl World {
    pub(super) async fn new() -> (Self, Up) {
        let program = Program::without_coder().variable("ENGINE", "custom").variable("GITHUB_TOKEN", CANARY);
        let template = engine(program.directory.path());
        let repository = program.repository();
        let program = program.variable("RUN_TEMPLATE_PATH", template.to_str().unwrap()).within(&repository);
        let up = Up::start(&program).await;
        // Something to disturb from the first moment on.
        for (name, project) in NAMES.into_iter().zip(["here", "setup", "here"]) {
            up.agent_with(json!({ "project": project, "spec": "say hello", "name": name })).await;
        }
        assert!(!up.token_of(NAMES[0]).is_empty(), "the checks look for tokens where they are");
        let limited = json!({ "kind": "manager", "name": "limited", "projects": ["setup"] });
        let limited = up.post("/api/v1/tokens", &limited).await;
        let principals = [
            ("operator", up.operator_token()),
            ("manager", file(&program, "manager.token")),
            ("limited", limited["token"].as_str().unwrap().to_owned()),
        ];
        let principals = principals.map(|(name, token)| Principal { name: name.to_owned(), token });
        let address = watch::Sender::new(Some(up.url.clone()));
        let principals = principals.to_vec();
        (
            Self {
                program,
                repository,
                ledger: Ledger::default(),
                address,
                principals,
                n_killed_runners: AtomicUsize::new(0),
            },
            up,
        )
    }

    pub(super) fn serves(&self, up: &Up) {
        self.address.send_replace(Some(up.url.clone()));
    }

    pub(super) fn is_down(&self) {
        self.address.send_replace(None);
    }

    pub(super) fn count_killed_runners(&self, counts: &FaultCounts) {
        let n = counts.kills.get("runner").copied().unwrap_or_default();
        self.n_killed_runners.fetch_add(n, Ordering::Relaxed);
    }

    /// Whether a start may have failed because its runner was killed.
    pub(super) fn has_killed_runners(&self) -> bool {
        self.n_killed_runners.load(Ordering::Relaxed) > 0
    }

    /// The server to call, once there is one.
    pub(super) async fn api(&self) -> Api {
        let mut address = self.address.subscribe();
        let url = address.wait_for(Option::is_some).await.unwrap().clone().unwrap_or_default();
        Api::new(&url, "")
    }

    /// The engine runs of each mark, by what the engine itself wrote down.
    pub(super) fn marks(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.program.directory.path().join("marks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Everything that must not be found where secrets do not belong.
    pub(super) fn secrets(&self) -> Vec<String> {
        let given = self.principals.iter().map(|principal| principal.token.clone());
        given.chain([CANARY.to_owned(), file(&self.program, "coder.token")]).collect()
    }
}

impl Drop for World {
    /// A server that does not answer fails the test at once; its log says why.
    fn drop(&mut self) {
        if std::thread::panicking() {
            keep(&self.program, "panic");
        }
    }
}

fn file(program: &Program, name: &str) -> String {
    std::fs::read_to_string(program.data_dir().join(name)).unwrap().trim().to_owned()
}

/// The demo engine behind a script that writes down each run of it, outside of every workspace: what is written
/// there outlives the agent, and nothing of ours takes part in it.
fn engine(directory: &Path) -> PathBuf {
    let (engine, template) = (directory.join("engine.sh"), directory.join("run.template"));
    let text = format!(
        "#!/bin/sh\nmark=${{1#*mark-}}\n\
         case $1 in *mark-*) printf '%s\\n' \"${{mark%%[!0-9a-z-]*}}\" >>'{marks}';; esac\n\
         FLEET_DEMO_MEMBER=1 exec '{program}' demo-engine <<END\n$1\nEND\n",
        marks = directory.join("marks").display(),
        program = env!("CARGO_BIN_EXE_fleet-mcp"),
    );
    script(&engine, &text);
    std::fs::write(&template, format!("{}\n<% task %>\n", engine.display())).unwrap();
    template
}
