//! The program as its users run it: started, stopped, killed, and found by its clients.

mod both_kills;
#[cfg(feature = "test-hooks")]
mod build_kills;
mod doctor_locks;
mod found;
mod half_open;
mod interrupts;
mod kill_points;
#[cfg(feature = "test-hooks")]
mod panics;
mod parked;
mod serving;
mod signals;
mod stdio;
mod task_kills;
mod token_refused;

use std::path::PathBuf;

use crate::harness::{CoderStub, Program};

/// The arguments that create an agent.
fn creation<'a>(spec: &'a str, name: &'a str) -> [&'a str; 9] {
    ["--json", "agents", "create", "--project", "setup", "--spec", spec, "--name", name]
}

/// The same, returning once the agent is ready.
fn creation_awaited<'a>(spec: &'a str, name: &'a str) -> Vec<&'a str> {
    [&creation(spec, name)[..], &["--wait", "40"]].concat()
}

/// A program that reads its token for Coder from this file.
fn with_token_file(coder: &CoderStub) -> (Program, PathBuf) {
    let program = Program::on(coder).variable("CODER_SESSION_TOKEN", "");
    let file = program.directory.path().join("coder-token");
    std::fs::write(&file, coder.token()).unwrap();
    (program.variable("FLEET_CODER_TOKEN_FILE", &file.display().to_string()), file)
}
