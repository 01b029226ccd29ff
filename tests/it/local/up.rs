//! `up` without any Coder: a fleet on its own embedded Coder, driven by the command line.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Child;

use crate::harness::{Program, eventually, kill, processes_under, server_file, skipped};

/// Ends processes that a failed test leaves running.
struct Left<'a>(&'a Program);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        processes_under(self.0.directory.path()).into_iter().for_each(kill);
    }
}

async fn up(program: &Program) -> Child {
    up_by(program, program.command(&["up", "--port", "0"])).await
}

async fn up_by(program: &Program, command: std::process::Command) -> Child {
    let mut command = tokio::process::Command::from(command);
    let log = std::fs::File::create(program.directory.path().join("server.log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
    let child = command.spawn().unwrap();
    eventually("the server announces itself", async || {
        server_file(&program.data_dir()).is_some_and(|file| Some(file.pid) == child.id())
    })
    .await;
    child
}

async fn agent(program: &Program, arguments: &[&str]) -> Value {
    let all: Vec<&str> = ["--json", "agents"].iter().chain(arguments).copied().collect();
    program.json(&all).await
}

/// An agent is idle for a moment before it begins as well.
async fn has_done_its_task(program: &Program) -> bool {
    let shown = agent(program, &["show", "one"]).await["agent"].clone();
    shown["status"] == "idle" && !shown["last_task"].is_null()
}

#[tokio::test]
async fn an_agent_lives_its_whole_life_through_the_command_line() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let mut server = up(&program).await;
    let create = ["create", "--project", "setup", "--spec", "say hello", "--name", "one", "--wait", "40"];
    let created = agent(&program, &create).await;
    assert_eq!((&created["agent"]["name"], &created["agent"]["project"]), (&"one".into(), &"setup".into()));
    let shown = async |wanted: &str| agent(&program, &["show", "one"]).await["agent"]["status"] == wanted;
    eventually("it has done its task", async || has_done_its_task(&program).await).await;
    // The fleet itself works in the workspace for a moment: it brings the agent's token.
    eventually("only the agent is left", async || processes_under(program.directory.path()).len() == 1).await;
    agent(&program, &["stop", "one", "--wait", "40"]).await;
    eventually("it is stopped", async || shown("stopped").await).await;
    assert_eq!(processes_under(program.directory.path()).len(), 0);
    agent(&program, &["start", "one", "--wait", "40"]).await;
    eventually("it is idle again", async || shown("idle").await).await;
    agent(&program, &["delete", "one", "--discard-work", "-y"]).await;
    eventually("nothing of it is left", async || {
        !program.data_dir().join("workspaces/one").exists()
            && processes_under(program.directory.path()).is_empty()
    })
    .await;
    let down = program.run(&["down"]).await;
    let told = "the server and its agents have stopped; the next 'fleet-mcp up' starts them again\n";
    assert_eq!((down.status.success(), String::from_utf8_lossy(&down.stdout).as_ref()), (true, told));
    assert!(server.wait().await.unwrap().success());
}

#[tokio::test]
async fn ctrl_c_ends_everything_and_the_next_up_goes_on_where_it_was() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let mut server = up(&program).await;
    let create = ["create", "--project", "setup", "--spec", "say hello", "--name", "one", "--wait", "40"];
    agent(&program, &create).await;
    eventually("it has done its task", async || has_done_its_task(&program).await).await;
    let pid = rustix::process::Pid::from_raw(server.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(server.wait().await.unwrap().success());
    assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new());
    let mut server = up(&program).await;
    eventually("it is idle again", async || {
        agent(&program, &["show", "one"]).await["agent"]["status"] == "idle"
    })
    .await;
    assert!(program.run(&["down"]).await.status.success());
    assert!(server.wait().await.unwrap().success());
}

/// Agents that keep running paid engines without a server are no success.
#[tokio::test]
async fn down_names_the_agents_that_a_killed_server_left_at_work() {
    let program = Program::without_coder();
    let _left = Left(&program);
    let mut server = up(&program).await;
    let create = ["create", "--project", "setup", "--spec", "hang", "--name", "one", "--wait", "40"];
    agent(&program, &create).await;
    server.kill().await.unwrap();
    let down = program.run(&["down"]).await;
    let told = "no server runs for this data directory, but agents of a killed server still run (one); run 'fleet-mcp up' to take them over, then 'fleet-mcp down'\n";
    assert_eq!((down.status.code(), String::from_utf8_lossy(&down.stdout).as_ref()), (Some(1), told));
    let mut server = up(&program).await;
    assert!(program.run(&["down"]).await.status.success());
    assert!(server.wait().await.unwrap().success());
    assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new());
    let again = program.run(&["down"]).await;
    let told = "no server runs for this data directory\n";
    assert_eq!((again.status.code(), String::from_utf8_lossy(&again.stdout).as_ref()), (Some(0), told));
}

/// An agent neither sees the data directory nor works where the server was started.
#[tokio::test]
async fn a_template_is_an_agents_own_wherever_the_operator_keeps_it() {
    let program = Program::without_coder().variable("ENGINE", "custom");
    let directory = program.data_dir();
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("run.template"), "/bin/sh\n-c\necho \"custom: $(cat)\"\n").unwrap();
    std::fs::write(directory.join("fleet.toml"), "[squads]\nrun_template = \"data/run.template\"\n").unwrap();
    assert_eq!(directory.file_name().unwrap(), "data");
    let program = program.within(directory.parent().unwrap());
    let _left = Left(&program);
    let mut server = up(&program).await;
    let create = ["create", "--project", "setup", "--spec", "say hello", "--name", "one", "--wait", "40"];
    agent(&program, &create).await;
    eventually("it has done its task", async || has_done_its_task(&program).await).await;
    let history = agent(&program, &["history", "one"]).await;
    let task = history["tasks"].as_array().unwrap().iter().find(|entry| entry["kind"] == "task").unwrap();
    assert_eq!(task["state"], "done", "{task}");
    assert!(task["outcome"].as_str().unwrap().ends_with("say hello"), "{task}");
    assert!(program.run(&["down"]).await.status.success());
    assert!(server.wait().await.unwrap().success());
}

/// A kind of namespace that some machines forbid.
#[derive(Clone, Copy)]
struct Forbidden {
    limit: &'static str,
    /// What `up` and `doctor` say then.
    warning: &'static str,
    finding: &'static str,
    remedy: &'static str,
}

const USERS: Forbidden = Forbidden {
    limit: "max_user_namespaces",
    warning: "agents are not isolated and can act as you",
    finding: "agents are not isolated and can act as you, including in your repositories",
    remedy: "Allow user namespaces for this program, or run agents on a Coder deployment.",
};

const PROCESSES: Forbidden = Forbidden {
    limit: "max_pid_namespaces",
    warning: "agents cannot reach the fleet's data, but they can signal this server and each other, and a detached process can survive a stop",
    finding: "agents cannot reach the fleet's data, but they can signal this server and each other, and a detached process can survive a stop",
    remedy: "Allow PID namespaces with a /proc of their own for this program.",
};

impl Forbidden {
    /// The same command in a user namespace that allows no more of them.
    fn to(self, plain: &std::process::Command) -> std::process::Command {
        let mut command = std::process::Command::new("unshare");
        let script = format!("echo 0 >/proc/sys/user/{} && exec \"$0\" \"$@\"", self.limit);
        command
            .args(["--user", "--map-root-user", "sh", "-c", &script])
            .arg(plain.get_program())
            .args(plain.get_args());
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn can_be(self) -> bool {
        let is_able =
            self.to(&std::process::Command::new("true")).output().is_ok_and(|ended| ended.status.success());
        if !is_able {
            skipped("the program 'unshare' cannot forbid namespaces here");
        }
        is_able
    }
}

#[tokio::test]
async fn where_agents_cannot_be_isolated_up_and_doctor_say_so_and_all_works() {
    works_without(USERS).await;
}

#[tokio::test]
async fn where_agents_cannot_have_pid_namespaces_up_and_doctor_say_so_and_all_works() {
    works_without(PROCESSES).await;
}

async fn works_without(forbidden: Forbidden) {
    if !forbidden.can_be() {
        return;
    }
    let program = Program::without_coder();
    let _left = Left(&program);
    let command = forbidden.to(&program.command(&["up", "--port", "0"]));
    let mut server = up_by(&program, command).await;
    let create = ["create", "--project", "setup", "--spec", "say hello", "--name", "one", "--wait", "40"];
    assert_eq!(agent(&program, &create).await["agent"]["name"], "one");
    let Forbidden { warning, finding, remedy, .. } = forbidden;
    let reason = "cannot make namespaces: No space left on device (os error 28)";
    assert!(program.log().lines().any(|line| line.contains(warning) && line.contains(reason)));
    let report = program.run(&["--json", "doctor"]).await;
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "isolation").unwrap();
    let finding = format!("{finding}: {reason}");
    let expected =
        serde_json::json!({ "name": "isolation", "ok": false, "finding": finding, "remedy": remedy });
    assert_eq!(check, &expected);
    assert!(program.run(&["down"]).await.status.success());
    assert!(server.wait().await.unwrap().success());
    assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new());
}

#[tokio::test]
async fn after_a_kill_a_server_that_cannot_isolate_starts_no_agent_and_says_so() {
    if !USERS.can_be() {
        return;
    }
    let program = Program::without_coder();
    let _left = Left(&program);
    let mut server = up_by(&program, program.command(&["up", "--port", "0"])).await;
    server.kill().await.unwrap();
    let mut server = up_by(&program, USERS.to(&program.command(&["up", "--port", "0"]))).await;
    let create =
        ["agents", "create", "--project", "setup", "--spec", "say hello", "--name", "one", "--wait", "40"];
    let refused = program.run(&create).await;
    let reason = "cannot make namespaces: No space left on device (os error 28)";
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected = "agents cannot be isolated as before; run 'fleet-mcp doctor' to see why and what to do";
    assert!(!refused.status.success() && told.contains(expected), "{told}");
    let warning =
        "agents were isolated before, but the server cannot isolate them now, so it starts no agent";
    assert!(program.log().lines().any(|line| line.contains(warning) && line.contains(reason)));
    let report = program.run(&["--json", "doctor"]).await;
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "isolation").unwrap();
    let expected = serde_json::json!({
        "name": "isolation",
        "ok": false,
        "finding": format!(
            "agents were isolated before, but the server could not isolate them at this start, so it starts no agent: {reason}"
        ),
        "remedy": "Allow namespaces for this program again, or set FLEET_ALLOW_LESS_ISOLATION=true and restart the server to start agents with less isolation.",
    });
    assert_eq!(check, &expected);
    assert!(program.run(&["down"]).await.status.success());
    assert!(server.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_doctor_speaks_of_the_git_that_the_server_finds() {
    let (program, empty) = (Program::without_coder(), tempfile::tempdir().unwrap());
    let mut command = program.command(&["up", "--port", "0"]);
    command.env("PATH", empty.path());
    let mut server = up_by(&program, command).await;
    let report = program.run(&["--json", "doctor"]).await;
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let is_git = |check: &&Value| check["name"] == "git";
    let checks: Vec<&Value> = report["checks"].as_array().unwrap().iter().filter(is_git).collect();
    let expected = serde_json::json!({
        "name": "git",
        "ok": false,
        "finding": "the server found no working git",
        "remedy": "Install git in a directory on the server's PATH, or restart the server with another PATH.",
    });
    assert_eq!(checks, [&expected]);
    assert!(program.run(&["down"]).await.status.success());
    assert!(server.wait().await.unwrap().success());
}
