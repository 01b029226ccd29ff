//! Which engine a workspace has, asked of the workspace itself.

use fleet_mcp::app::error::Code;
use fleet_mcp::engine::{EngineWord, discovery, installed};

use crate::harness::Crew;

#[tokio::test]
async fn project_engine_is_used_and_auto_probes_the_workspace() {
    let crew = Crew::with("one").await;
    let state = crew.running.fleet.board().now().by_name("one").unwrap().clone();
    let asked = async |word| crew.running.fleet.test_engine_in(&state, word).await;
    assert_eq!(asked(Some("demo")).await.unwrap(), EngineWord::Demo);
    let unknown = asked(Some("nope")).await.unwrap_err();
    let told = "agent 'one' has no engine: there is no engine 'nope'; there are: auto, claude, codex, \
                cursor-agent, custom, demo";
    assert_eq!((unknown.code(), unknown.to_string()), (Code::EngineUnavailable, told.to_owned()));
    // Embedded workspaces see the programs of this machine.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let here = discovery::find_clis(|name| installed::program(name, &path));
    for word in [Some("auto"), None] {
        match (asked(word).await, here.first()) {
            (Ok(word), Some(first)) => assert_eq!(word, first.word),
            (Err(error), None) => {
                assert_eq!(error.code(), Code::EngineUnavailable);
                assert!(error.to_string().ends_with("or use --engine demo"), "{error}");
            }
            (asked, here) => panic!("asked: {asked:?}, here: {here:?}"),
        }
    }
}
