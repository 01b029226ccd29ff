//! What the embedded Coder's machine shows beside its records: directories and processes of no workspace.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use fleet_mcp::domain::hosting::HostFindings;

use crate::harness::LocalSite;

const LEFT: &str = "00000000-0000-4000-8000-000000000001";

#[tokio::test]
async fn directories_and_processes_of_no_workspace_are_found_and_those_of_agents_are_not() {
    let site = LocalSite::new();
    let local = site.start().await;
    local.create_ready("heron").await;
    let inspector = local.coder.inspector();
    assert_eq!(inspector.inspect().unwrap(), HostFindings::default());

    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for name in ["ghost", "kept.orphan-12345678", ".moving-1"] {
        let left = site.workspace(name);
        std::fs::create_dir(&left).unwrap();
        std::fs::File::open(&left).unwrap().set_modified(long_ago).unwrap();
    }
    let young = site.workspace("young");
    std::fs::create_dir(&young).unwrap();
    let agents = site.data_dir().join("coder/agents");
    let made = std::fs::read_dir(&agents).unwrap().map(|entry| entry.unwrap().path());
    // The agent's own directory is as old, and that of a build under way is younger.
    let (left, begun) = (agents.join(LEFT), agents.join("00000000-0000-4000-8000-000000000002"));
    for path in made.chain([left]) {
        std::fs::create_dir_all(&path).unwrap();
        std::fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
    }
    std::fs::create_dir(&begun).unwrap();
    let mut stray = Command::new("sleep");
    let mut stray = stray
        .arg("600")
        .env("FLEET_AGENT_DIR", site.workspace("ghost").join("fleet"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let found = tokio::task::spawn_blocking(move || inspector.inspect().unwrap()).await.unwrap();
    stray.kill().unwrap();
    stray.wait().unwrap();
    let expected = HostFindings {
        leftovers: vec![
            "directory 'ghost' belongs to no workspace".to_owned(),
            format!("directory 'coder/agents/{LEFT}' belongs to no workspace"),
        ],
        strays: vec!["a process runs in workspace 'ghost', which is not running".to_owned()],
        lost: Vec::new(),
    };
    assert_eq!(found, expected);
    local.coder.stop().await;
}
