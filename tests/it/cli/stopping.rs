//! `down`: the server is asked once, and the command returns when it has gone.

use insta::assert_snapshot;
use serde_json::json;
use wiremock::{Request, ResponseTemplate};

use super::{Rig, authorized, command, private_directory, told};

#[test]
fn where_nothing_runs_there_is_nothing_to_do() {
    let directory = private_directory();
    let run = |line: &str| told(line, &command(directory.path(), line).output().unwrap());
    assert_snapshot!(run("down") + &run("down --json"));
}

#[tokio::test]
async fn down_returns_once_the_server_file_is_gone() {
    let rig = Rig::start().await;
    let file = rig.directory.path().join("server.json");
    let stop = move |_: &Request| {
        std::fs::remove_file(&file).unwrap();
        ResponseTemplate::new(202).set_body_json(json!({}))
    };
    authorized("POST /shutdown").respond_with(stop).mount(&rig.server).await;
    assert_snapshot!(rig.run("down"));
}

#[tokio::test]
async fn a_token_that_may_not_stop_the_server_is_refused() {
    let rig = Rig::start().await;
    let refusal = super::answers::error("FORBIDDEN", "a manager may not stop the server", "Ask an operator.");
    rig.refuses("POST /shutdown", 403, &refusal).await;
    assert_snapshot!(rig.run("down"));
}
