//! `doctor`: findings of this machine, then the server's own; any trouble ends with one.

use std::os::unix::fs::symlink;
use std::path::Path;

use fleet_mcp::view::doctor::{CheckRow, DoctorReport};
use insta::assert_snapshot;

use super::{Rig, command, dead_url, private_directory, server_file, set_mode, told};

fn well(name: &str, finding: &str) -> CheckRow {
    CheckRow { name: name.into(), ok: true, finding: finding.into(), remedy: None }
}

/// What differs from machine to machine and from run to run.
fn settled(told: &str, data_directory: &Path) -> String {
    let process = format!("process {}", std::process::id());
    let told = told.replace(&data_directory.display().to_string(), "[DATA]");
    let lines = told.lines().map(|line| match line.split_once("git version ") {
        Some((before, after)) => {
            let end = after.find('"').map_or("", |end| &after[end..]);
            format!("{before}git version [V]{end}")
        }
        None => line.replace(env!("CARGO_PKG_VERSION"), "[VERSION]").replace(&process, "process [PID]"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn all_is_well() {
    let rig = Rig::start().await;
    let checks = vec![well("store", "the database is intact"), well("coder", "Coder v2.36.0 responds")];
    rig.answers("GET /doctor", &DoctorReport { ok: true, checks }).await;
    assert_snapshot!(settled(&rig.run("doctor"), rig.directory.path()));
}

#[tokio::test]
async fn git_check_of_the_server_counts() {
    let rig = Rig::start().await;
    let theirs = CheckRow { ok: false, remedy: Some("Install git.".into()), ..well("git", "none") };
    rig.answers("GET /doctor", &DoctorReport { ok: false, checks: vec![theirs.clone()] }).await;
    let output = rig.command("doctor --json").output().unwrap();
    let report: DoctorReport = serde_json::from_slice(&output.stdout).unwrap();
    let gits: Vec<&CheckRow> = report.checks.iter().filter(|check| check.name == "git").collect();
    assert_eq!(gits, [&theirs]);
}

#[tokio::test]
async fn every_trouble_has_its_remedy() {
    let rig = Rig::start().await;
    rig.write_server_file(std::process::id(), "0.0.1");
    set_mode(rig.directory.path(), 0o755);
    set_mode(&rig.directory.path().join("operator.token"), 0o644);
    let trouble = CheckRow {
        ok: false,
        remedy: Some("Check that CODER_URL is correct and that Coder is running.".into()),
        ..well("coder", "connection refused")
    };
    rig.answers("GET /doctor", &DoctorReport { ok: false, checks: vec![trouble] }).await;
    assert_snapshot!(settled(&rig.run("doctor"), rig.directory.path()));
}

#[test]
fn without_a_server_the_machine_is_checked_all_the_same() {
    let directory = private_directory();
    let run = |line: &str| told(line, &command(directory.path(), line).output().unwrap());
    let told = run("doctor") + &run("doctor --json");
    assert_snapshot!(settled(&told, directory.path()));
}

#[tokio::test]
async fn a_server_that_was_killed_is_noticed() {
    let rig = Rig::start().await;
    let mut killed = std::process::Command::new("true").spawn().unwrap();
    killed.wait().unwrap();
    let file = server_file(&dead_url(), killed.id(), env!("CARGO_PKG_VERSION"));
    rig.write_private("server.json", &file);
    let told = rig.run("doctor").replace(&format!("process {}", killed.id()), "process [GONE]");
    assert_snapshot!(settled(&told, rig.directory.path()));
}

#[tokio::test]
async fn a_living_process_that_does_not_answer_is_noticed() {
    let rig = Rig::start().await;
    let file = server_file(&dead_url(), std::process::id(), env!("CARGO_PKG_VERSION"));
    rig.write_private("server.json", &file);
    let output = rig.command("doctor --json").output().unwrap();
    let report: DoctorReport = serde_json::from_slice(&output.stdout).unwrap();
    let unwell: Vec<&str> = report.checks.iter().filter(|c| !c.ok).map(|c| c.name.as_str()).collect();
    assert_eq!((unwell, output.status.code()), (vec!["answer"], Some(1)));
}

#[test]
fn missing_git_and_directory_are_found() {
    let parent = private_directory();
    let absent = parent.path().join("absent");
    let empty = parent.path().join("bin");
    symlink("/there/is/nothing/here", &empty).unwrap();
    let output = command(&absent, "doctor").env("PATH", &empty).output().unwrap();
    assert_snapshot!(settled(&told("doctor", &output), &absent));
}
