//! What an agent puts into its own directory: links, FIFOs, sockets, foreign ids, and too much of everything.

use std::path::Path;

use serde_json::{Value, json};

use super::peak_memory;
use crate::harness::{Program, Up, as_each_user, eventually, runners_under, trusted_directory};

/// One agent that does as it is told, and one that the script must not reach.
async fn two_agents(program: &Program) -> Up {
    let up = Up::start(program).await;
    up.agent("mallory").await;
    up.agent("alice").await;
    up
}

/// Runs a script to its end; every command in it must work, or the play would show nothing.
async fn run(up: &Up, script: &str) {
    let output = up.exec("mallory", &format!("set -eu; {script}")).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.exit, fleet_mcp::coder::exec::Exit::Code(0), "{said}");
}

/// Waits until the server has read the metadata that the script wrote last.
async fn has_read(up: &Up, key: &str) -> Value {
    eventually("the server has read the metadata", async || {
        up.show("mallory").await["metadata"][key].is_string()
    })
    .await;
    up.show("mallory").await
}

async fn terminate(mut up: Up) -> Option<i32> {
    let pid = rustix::process::Pid::from_raw(up.child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(40), up.child.wait()).await;
    ended.expect("the server ends").unwrap().code()
}

fn canary(program: &Program) -> std::path::PathBuf {
    let path = program.data_dir().join("canary");
    std::fs::write(&path, "untouched").unwrap();
    path
}

#[tokio::test]
async fn a_link_to_a_secret_shows_nothing_of_it() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        let data = program.data_dir().display().to_string();
        run(
            &up,
            &format!(
                "cd \"$FLEET_AGENT_DIR/metadata\"
                ln -s '{data}/operator.token' fleet_mcp_absolute
                ln -s ../../../../operator.token fleet_mcp_relative
                ln -s /proc/self/environ fleet_mcp_magic
                ln -s '{data}/workspaces/alice/fleet/token' fleet_mcp_other
                touch ../beside; ln ../beside fleet_mcp_hard
                printf seen >fleet_mcp_zz_last"
            ),
        )
        .await;
        let shown = has_read(&up, "fleet_mcp_zz_last").await;
        for key in ["absolute", "relative", "magic", "other", "hard"] {
            assert_eq!(shown["metadata"][format!("fleet_mcp_{key}")], Value::Null, "{key}");
        }
        let shown = shown.to_string();
        assert!(!shown.contains(&up.operator_token()) && !shown.contains(&up.token_of("alice")));
    })
    .await;
}

#[tokio::test]
async fn a_metadata_directory_swapped_for_a_link_shows_nothing_and_is_restored_by_the_next_start() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        let hidden = program.data_dir().join("fleet_hidden");
        std::fs::create_dir(&hidden).unwrap();
        std::fs::write(hidden.join("fleet_mcp_secret"), "of the operator").unwrap();
        let swap = format!(
            "mv \"$FLEET_AGENT_DIR/metadata\" \"$FLEET_AGENT_DIR/old\"
            ln -s '{}' \"$FLEET_AGENT_DIR/metadata\"",
            hidden.display()
        );
        run(&up, &swap).await;
        up.change("mallory", "restart").await;
        up.provisioned("mallory").await;
        run(&up, "printf seen >\"$FLEET_AGENT_DIR/metadata/fleet_mcp_zz_last\"").await;
        let shown = has_read(&up, "fleet_mcp_zz_last").await;
        assert_eq!(shown["metadata"]["fleet_mcp_secret"], Value::Null);
        let names: Vec<_> =
            std::fs::read_dir(&hidden).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["fleet_mcp_secret"]);
    })
    .await;
}

#[tokio::test]
async fn a_fifo_freezes_neither_the_fleet_nor_the_stop_of_the_server() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        run(
            &up,
            "cd \"$FLEET_AGENT_DIR\"
            mkfifo metadata/fleet_mcp_fifo; printf seen >metadata/fleet_mcp_zz_last
            rm -rf agent.log agent.sock; mkfifo agent.log agent.sock prompt.fresh",
        )
        .await;
        has_read(&up, "fleet_mcp_zz_last").await;
        up.exec("alice", "printf seen >\"$FLEET_AGENT_DIR/metadata/fleet_mcp_zz_last\"").await;
        eventually("metadata of others is read", async || {
            up.show("alice").await["metadata"]["fleet_mcp_zz_last"].is_string()
        })
        .await;
        up.change("mallory", "restart").await;
        up.provisioned("mallory").await;
        assert_eq!(terminate(up).await, Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_socket_put_in_place_of_its_own_leads_to_no_other_agent() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        let other = up.workspace("alice").join("fleet/agent.sock");
        let swap = format!(
            "cd \"$FLEET_AGENT_DIR\"; rm -f agent.sock; ln -s '{}' agent.sock; ls -l agent.sock",
            other.display()
        );
        run(&up, &swap).await;
        let task = json!({ "task_description": "commit by mallory" });
        up.post("/api/v1/agents/mallory/tasks", &task).await;
        eventually("the task is done", async || {
            up.show("mallory").await["last_task"]["message"] == "commit by mallory"
        })
        .await;
        assert_eq!(up.exec("mallory", "git log --format=%s -1").await.stdout.as_ref(), b"by mallory\n");
        assert_ne!(up.exec("alice", "git log --format=%s -1").await.stdout.as_ref(), b"by mallory\n");
    })
    .await;
}

#[tokio::test]
async fn files_of_the_server_are_not_overwritten_through_links() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        let canary = canary(&program);
        let role = program.data_dir().join("roles/evil.md");
        std::fs::create_dir_all(role.parent().unwrap()).unwrap();
        let plant = format!(
            "cd \"$FLEET_AGENT_DIR\"
            for name in prompt system_prompt parameters.json workspace; do
                ln -sf '{0}' $name; ln -sf '{0}' $name.fresh
            done
            ln -sf '{1}' agent.log; ln -sf '{1}' agent.log.old",
            canary.display(),
            role.display(),
        );
        run(&up, &plant).await;
        up.change("mallory", "restart").await;
        let roles = std::fs::read_dir(role.parent().unwrap()).unwrap().count();
        assert_eq!((std::fs::read_to_string(&canary).unwrap().as_str(), roles), ("untouched", 0));
        up.provisioned("mallory").await;
        assert_eq!(up.agent_file("mallory", "prompt").as_deref(), Some("say hello"));
    })
    .await;
}

#[tokio::test]
async fn a_foreign_id_in_its_directory_keeps_nothing_behind() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        let trusted = trusted_directory(&program.data_dir(), "mallory");
        let deep = "i=0; while [ $i -lt 1500 ]; do mkdir d; cd -P d; i=$((i+1)); done";
        let play = format!(
            "cd \"$FLEET_AGENT_DIR\"; printf 00000000-0000-0000-0000-000000000000 >workspace
            ( {deep} ); mkdir locked; touch locked/file; chmod 0 locked; chmod 0500 ."
        );
        run(&up, &play).await;
        up.delete("mallory", "&keep_work=false").await;
        assert_eq!((up.workspace("mallory").exists(), trusted.exists()), (false, false));
        let left: Vec<_> = std::fs::read_dir(program.data_dir().join("workspaces")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    })
    .await;
}

#[tokio::test]
async fn too_many_and_too_large_values_are_cut_and_hold_nothing_up() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        run(
            &up,
            "cd \"$FLEET_AGENT_DIR/metadata\"
            truncate -s 1G fleet_mcp_sparse
            seq -f fleet_mcp_many_%06.0f 1 100000 | xargs touch",
        )
        .await;
        up.exec("alice", "printf seen >\"$FLEET_AGENT_DIR/metadata/fleet_mcp_zz_last\"").await;
        eventually("metadata of others is read", async || {
            up.show("alice").await["metadata"]["fleet_mcp_zz_last"].is_string()
        })
        .await;
        let shown = up.show("mallory").await;
        let n_keys = shown["metadata"].as_object().unwrap().len();
        assert!((1..=100).contains(&n_keys) && shown.to_string().len() < 100_000, "{n_keys}");
        up.delete("mallory", "&keep_work=false").await;
        assert!(!Path::new(&up.workspace("mallory")).exists());
    })
    .await;
}

#[tokio::test]
async fn a_huge_file_in_its_directory_does_not_fill_the_memory_of_its_runner() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        run(&up, "cd \"$FLEET_AGENT_DIR\"; truncate -s 2G budget.json").await;
        let task = json!({ "task_description": "say no" });
        up.post("/api/v1/agents/mallory/tasks", &task).await;
        eventually("the task has failed", async || {
            up.show("mallory").await["last_task"]["state"] == "failed"
        })
        .await;
        let outcome = up.show("mallory").await["last_task"]["outcome"].to_string();
        assert!(outcome.contains("it is longer than"), "{outcome}");
        let runners = runners_under(program.directory.path());
        assert_eq!(runners.len(), 2);
        for peak in runners.into_iter().map(peak_memory) {
            assert!(peak < 500_000, "{peak} kB");
        }
    })
    .await;
}

#[tokio::test]
async fn an_agent_cannot_speak_to_a_runner_as_if_it_were_the_coder() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        let (agents, data) = (program.data_dir().join("coder/agents"), program.data_dir());
        let look = format!(
            "ls '{}' 2>&1; find '{}' '{}' -type s 2>/dev/null; env | grep FLEET_AGENT_ | sort",
            agents.display(),
            data.display(),
            up.workspace("mallory").display()
        );
        let output = up.exec("mallory", &look).await;
        let seen = String::from_utf8_lossy(&output.stdout).into_owned();
        let fleet = up.workspace("mallory").join("fleet");
        let expected = format!(
            "ls: cannot access '{}': No such file or directory\nFLEET_AGENT_DIR={}\n",
            agents.display(),
            fleet.display()
        );
        assert_eq!(seen, expected);
    })
    .await;
}

#[tokio::test]
async fn a_runner_that_outlived_a_killed_server_is_reached_again() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        let runners = runners_under(program.directory.path());
        let up = Up::start(&up.killed().await).await;
        // A new server believes the agent's last report until it has asked the agent itself.
        let task = json!({ "task_description": "say still here", "when_busy": "queue" });
        up.post("/api/v1/agents/mallory/tasks", &task).await;
        eventually("the task is done", async || {
            up.show("mallory").await["last_task"]["message"] == "say still here"
        })
        .await;
        assert_eq!(runners.len(), 2);
        assert_eq!(runners_under(program.directory.path()), runners);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_puts_a_fifo_in_place_of_its_journal_starts_again() {
    as_each_user(async |program| {
        let up = two_agents(&program).await;
        run(&up, "cd \"$FLEET_AGENT_DIR\"; test -f journal.jsonl; rm journal.jsonl; mkfifo journal.jsonl")
            .await;
        up.change("mallory", "restart").await;
        up.provisioned("mallory").await;
        // A new server believes the agent's last report until it has asked the agent itself.
        let task = json!({ "task_description": "say still here", "when_busy": "queue" });
        up.post("/api/v1/agents/mallory/tasks", &task).await;
        eventually("the task is done", async || {
            up.show("mallory").await["last_task"]["message"] == "say still here"
        })
        .await;
        let fleet = up.workspace("mallory").join("fleet");
        let is_fifo = |name: &str| {
            let found = fleet.join(name).symlink_metadata().unwrap();
            std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type())
        };
        assert_eq!((is_fifo("journal.jsonl.bad"), is_fifo("journal.jsonl")), (true, false));
    })
    .await;
}
