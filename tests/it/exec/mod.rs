//! Commands inside a workspace: on the embedded Coder always, and on a real one that the environment names.

mod once;

use fleet_mcp::coder::exec::{Command, Exit, Output};

fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

fn output(exit: Exit, stdout: &str, stderr: &str) -> Output {
    Output { exit, stdout: stdout.to_owned().into(), stderr: stderr.to_owned().into(), truncated: false }
}
