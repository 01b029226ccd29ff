//! `doctor`: findings of this machine, then the server's own; any trouble ends with one.

use std::os::unix::fs::symlink;
use std::path::Path;

use fleet_mcp::view::doctor::{CheckRow, DoctorReport};
use insta::assert_snapshot;

use super::{Rig, command, private_directory, set_mode, told};

fn well(name: &str, finding: &str) -> CheckRow {
    CheckRow { name: name.into(), ok: true, finding: finding.into(), remedy: None }
}

/// Which git there is differs from machine to machine.
fn without_versions(told: &str, data_directory: &Path) -> String {
    let mut settled = told.replace(&data_directory.display().to_string(), "[DATA]");
    if let Some(start) = settled.find("git version ") {
        let end = settled[start..].find(['\n', '"']).map_or(settled.len(), |end| start + end);
        settled.replace_range(start..end, "git version [V]");
    }
    settled.replace(env!("CARGO_PKG_VERSION"), "[VERSION]").replace(&std::process::id().to_string(), "[PID]")
}

#[tokio::test]
async fn all_is_well() {
    let rig = Rig::start().await;
    let checks = vec![well("store", "the database is whole"), well("coder", "Coder v2.36.0 answers")];
    rig.answers("GET /doctor", &DoctorReport { ok: true, checks }).await;
    assert_snapshot!(without_versions(&rig.run("doctor"), rig.directory.path()));
}

#[tokio::test]
async fn every_trouble_has_its_remedy() {
    let rig = Rig::start().await;
    rig.write_server_file(std::process::id(), "0.0.1");
    set_mode(rig.directory.path(), 0o755);
    set_mode(&rig.directory.path().join("operator.token"), 0o644);
    let trouble = CheckRow {
        ok: false,
        remedy: Some("Check that CODER_URL is right and that Coder runs.".into()),
        ..well("coder", "connection refused")
    };
    rig.answers("GET /doctor", &DoctorReport { ok: false, checks: vec![trouble] }).await;
    assert_snapshot!(without_versions(&rig.run("doctor"), rig.directory.path()));
}

#[test]
fn without_a_server_the_machine_is_checked_all_the_same() {
    let directory = private_directory();
    let run = |line: &str| told(line, &command(directory.path(), line).output().unwrap());
    let told = run("doctor") + &run("doctor --json");
    assert_snapshot!(without_versions(&told.replace("git version", "git  version"), directory.path()));
}

#[tokio::test]
async fn a_server_that_was_killed_is_noticed() {
    let Rig { directory, server } = Rig::start().await;
    let mut killed = std::process::Command::new("true").spawn().unwrap();
    killed.wait().unwrap();
    let rig = Rig { directory, server };
    rig.write_server_file(killed.id(), env!("CARGO_PKG_VERSION"));
    let Rig { directory, server } = rig;
    drop(server);
    let output = command(directory.path(), "doctor").output().unwrap();
    let told = told("doctor", &output).replace(&killed.id().to_string(), "[GONE]");
    assert_snapshot!(without_versions(&told, directory.path()));
}

#[test]
fn missing_git_and_directory_are_found() {
    let parent = private_directory();
    let absent = parent.path().join("absent");
    let empty = parent.path().join("bin");
    symlink("/there/is/nothing/here", &empty).unwrap();
    let output = command(&absent, "doctor").env("PATH", &empty).output().unwrap();
    assert_snapshot!(without_versions(&told("doctor", &output), &absent));
}
