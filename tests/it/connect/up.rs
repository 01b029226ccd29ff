//! `up` as a person sees it: what it prints, the demo agents, what a second one says, what Ctrl-C leaves.

use serde_json::json;

use super::{Left, home, interrupt, neutral, told, up};
use crate::harness::{Program, eventually, processes_under, server_file};

fn printed(program: &Program) -> String {
    let text = std::fs::read_to_string(home(program, "up.out")).unwrap();
    let address = server_file(&program.data_dir()).map(|file| file.url.to_string()).unwrap_or_default();
    neutral(program, &text).replace(address.trim_end_matches('/'), "http://ADDRESS")
}

#[tokio::test]
async fn up_tells_what_it_found_and_what_to_type_without_colours() {
    let program = Program::without_coder();
    let _left = Left(&program);
    // Nothing that happens to be installed here is to be found.
    let program = program.clone().variable("PATH", "/nowhere");
    std::fs::create_dir_all(home(&program, ".cursor")).unwrap();
    std::fs::write(home(&program, ".claude.json"), "{}").unwrap();
    let server = up(&program, &[]).await;
    eventually("it greets", async || printed(&program).contains("Ctrl-C stops")).await;
    insta::assert_snapshot!(printed(&program));
    interrupt(server).await;
}

#[tokio::test]
async fn a_second_up_on_the_same_directory_names_the_first_and_gives_up() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let server = up(&program, &[]).await;
    let file = server_file(&program.data_dir()).unwrap();
    let second = program.run(&["up", "--port", "0"]).await;
    let expected = format!(
        "exit 75\nerror: HOME/data is held by process {} serving {}; 'fleet-mcp down' stops it\n",
        file.pid, file.url
    );
    assert_eq!(told(&program, &second), expected);
    interrupt(server).await;
}

#[tokio::test]
async fn demo_agents_get_ready_outside_any_repository_and_none_is_left_after_ctrl_c() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let server = up(&program, &["--demo"]).await;
    let ready = "ready  ";
    eventually("three are ready", async || printed(&program).matches(ready).count() == 3).await;
    let list = program.json(&["--json", "agents", "list"]).await;
    let agents = list["agents"].as_array().unwrap().iter();
    let mut made: Vec<_> = agents.map(|agent| (agent["name"].clone(), agent["role"].clone())).collect();
    made.sort_by_key(|(name, _)| name.to_string());
    let expected = [
        (json!("demo-api"), json!("backend-developer")),
        (json!("demo-page"), json!("frontend-developer")),
        (json!("demo-tests"), json!("qa-engineer")),
    ];
    assert_eq!(made, expected);
    assert!(!processes_under(program.directory.path()).is_empty());
    interrupt(server).await;
    assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new());
    let again = up(&program, &["--demo"]).await;
    eventually("the same three are ready", async || printed(&program).matches(ready).count() == 3).await;
    interrupt(again).await;
    assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new());
}

#[tokio::test]
async fn an_unknown_engine_is_refused_before_anything_starts() {
    let program = Program::without_coder();
    let refused = program.run(&["up", "--port", "0", "--engine", "nope"]).await;
    assert!(told(&program, &refused).starts_with("exit 2\nerror: there is no engine 'nope'; there are: "));
    assert!(!program.data_dir().exists());
}
