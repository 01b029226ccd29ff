//! The premise of every play: the script runs as the server's user, in the agent's enclosure and workspace.

use crate::harness::{Up, as_each_user};

#[tokio::test]
async fn a_script_runs_inside_the_agent_and_sees_nothing_of_the_fleet() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let data = program.data_dir();
        let script = format!("pwd; id -u; ls '{}'; cat '{}/operator.token'", data.display(), data.display());
        let output = up.exec("mallory", &script).await;
        let owner = std::os::unix::fs::MetadataExt::uid(&data.metadata().unwrap());
        let repo = up.workspace("mallory").join("repo").canonicalize().unwrap();
        let seen = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(seen, format!("{}\n{owner}\nworkspaces\n", repo.display()));
    })
    .await;
}
