//! From a fresh machine to a connected client: `up`, `connect`, `stdio`, and the real CLIs on the other side.

mod bridges;
mod files;
mod here;
mod http;
pub(crate) mod real_clients;
mod real_engines;
mod real_rounds;
mod up;

use std::path::PathBuf;
use std::process::{Output, Stdio};

use tokio::process::Child;

use crate::harness::{Program, eventually, kill, processes_under, server_file};

/// Ends processes that a failed test leaves running: agents by their mark, servers in the background by their file.
struct Left<'a>(&'a Program);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if let Some(server) = server_file(&self.0.data_dir()) {
            kill(server.pid);
        }
        processes_under(self.0.directory.path()).into_iter().for_each(kill);
    }
}

/// Starts `up` on a free port and waits until it serves; what it prints is in `up.out`.
async fn up(program: &Program, arguments: &[&str]) -> Child {
    let all: Vec<&str> = ["up", "--port", "0"].iter().chain(arguments).copied().collect();
    let mut command = tokio::process::Command::from(program.command(&all));
    let file = |name: &str| std::fs::File::create(program.directory.path().join(name)).unwrap();
    command.current_dir(program.directory.path());
    command.stdin(Stdio::null()).stdout(file("up.out")).stderr(file("server.log")).kill_on_drop(true);
    let child = command.spawn().unwrap();
    eventually("the server announces itself", async || {
        server_file(&program.data_dir()).is_some_and(|file| Some(file.pid) == child.id())
    })
    .await;
    child
}

/// Asks it to stop as Ctrl-C does, and waits until it has.
async fn interrupt(mut server: Child) {
    let pid = rustix::process::Pid::from_raw(server.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(server.wait().await.unwrap().success());
}

fn home(program: &Program, file: &str) -> PathBuf {
    program.directory.path().join(file)
}

/// What a command said, with the paths of this run left out.
fn told(program: &Program, output: &Output) -> String {
    let text = format!(
        "exit {}\n{}{}",
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    neutral(program, &text)
}

fn neutral(program: &Program, text: &str) -> String {
    let text = text.replace(&program.directory.path().display().to_string(), "HOME");
    text.replace(env!("CARGO_BIN_EXE_fleet-mcp"), "/PROGRAM")
}
