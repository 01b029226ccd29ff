//! The real program as a process of its own, on a data directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fleet_mcp::cli::ServerFile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Child;

use super::{CoderStub, User, eventually, script};

/// The variable with which a program, built for tests, divides its limits by ten.
pub(crate) const TENTH: (&str, &str) = ("FLEET_LIMITS_DIVISOR", "10");

/// The divisor that such a program uses: only a build for tests has one.
pub(crate) fn tenth() -> u8 {
    if cfg!(feature = "test-hooks") { 10 } else { 1 }
}

/// A server process; dropping it kills that process and no other.
pub(crate) struct ServerProcess {
    pub(crate) directory: Arc<TempDir>,
    pub(crate) child: Child,
    pub(crate) url: String,
}

/// Where and how a program runs.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) directory: Arc<TempDir>,
    variables: Vec<(String, String)>,
    /// The directory it is called in, which is never this project's own.
    place: PathBuf,
    user: User,
    /// What a shell does before it becomes the program.
    before: Option<String>,
}

impl Program {
    /// On a fresh data directory, talking to this Coder.
    pub(crate) fn new(coder_url: &str, token: &str) -> Self {
        Self::without_coder().variable("CODER_URL", coder_url).variable("CODER_SESSION_TOKEN", token)
    }

    /// On a fresh data directory, with no Coder set.
    pub(crate) fn without_coder() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let place = directory.path().to_owned();
        Self { place, directory, variables: Vec::new(), user: User::Current, before: None }
    }

    /// It may have so many descriptors open.
    pub(crate) fn with_descriptors(self, most: u32) -> Self {
        Self { before: Some(format!("ulimit -n {most}")), ..self }
    }

    /// It is started to ignore these signals, as `nohup` and shells start programs.
    pub(crate) fn ignoring(self, signals: &str) -> Self {
        Self { before: Some(format!("trap '' {signals}")), ..self }
    }

    pub(crate) fn on(coder: &CoderStub) -> Self {
        Self::new(coder.url(), &coder.token())
    }

    /// The same program run by this user, to whom its directory belongs.
    pub(crate) fn run_by(self, user: User) -> Self {
        user.own(self.directory.path());
        Self { user, ..self }
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this settings file.
    pub(crate) fn with_settings(self, text: &str) -> Self {
        std::fs::create_dir_all(self.data_dir()).unwrap();
        std::fs::write(self.data_dir().join("fleet.toml"), text).unwrap();
        self
    }

    /// With a shell script as the first command of this name.
    pub(crate) fn with_command(self, name: &str, text: &str) -> Self {
        let commands = self.directory.path().join("programs");
        std::fs::create_dir(&commands).unwrap();
        script(&commands.join(name), &format!("#!/bin/sh\n{text}\n"));
        let path = format!("{}:{}", commands.display(), std::env::var("PATH").unwrap());
        self.variable("PATH", &path)
    }

    /// With a tenth of all limits.
    pub(crate) fn hurried(self) -> Self {
        self.variable(TENTH.0, TENTH.1)
    }

    /// The same program called in another directory.
    pub(crate) fn within(&self, place: &Path) -> Self {
        Self { place: place.to_owned(), ..self.clone() }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A git repository with one commit, made when it is asked for first.
    pub(crate) fn repository(&self) -> PathBuf {
        self.repository_named("repository")
    }

    pub(crate) fn repository_named(&self, name: &str) -> PathBuf {
        let repository = self.directory.path().join(name);
        if !repository.exists() {
            std::fs::create_dir(&repository).unwrap();
            self.user.own(&repository);
            for arguments in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "first"]] {
                self.git(&repository, arguments);
            }
        }
        repository.canonicalize().unwrap()
    }

    /// Git, run by the program's user; what it printed.
    pub(crate) fn git(&self, directory: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        self.user.run(&mut git);
        git.env("HOME", self.directory.path());
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
        let output = git.current_dir(directory).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The command with nothing of this machine's environment but what a process needs.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_fleet-mcp");
        let mut command = match &self.before {
            None => Command::new(program),
            Some(before) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{before} && exec \"$0\" \"$@\""), program]);
                shell
            }
        };
        command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(&self.place);
        self.user.run(&mut command);
        command.env("HOME", self.directory.path()).env("FLEET_DATA_DIR", self.data_dir());
        // A CLI that happens to be on this machine is not what a test means.
        command.env("ENGINE", "demo");
        command.env("FLEET_POLL_INTERVAL_MS", "100").envs(self.variables.iter().cloned());
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::from(self.command(arguments));
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        tokio::time::timeout(Duration::from_secs(60), output).await.expect("the command ends").unwrap()
    }

    /// Runs a command that must succeed and print JSON.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    /// Starts a server on a free port and returns before it serves.
    pub(crate) fn spawn(&self) -> Child {
        let mut command = tokio::process::Command::from(self.command(&["serve", "--port", "0"]));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log_file(&self.directory))
            .kill_on_drop(true);
        command.spawn().unwrap()
    }

    /// Starts a server and waits until it serves.
    pub(crate) async fn serve(&self) -> ServerProcess {
        let mut child = self.spawn();
        let data_dir = self.data_dir();
        eventually("the server announces itself", async || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {}", self.log());
            server_file(&data_dir).is_some_and(|file| Some(file.pid) == child.id())
        })
        .await;
        let url = server_file(&data_dir).unwrap().url.to_string();
        ServerProcess { directory: Arc::clone(&self.directory), child, url }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default()
    }
}

impl ServerProcess {
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Ends it as an operator would; returns its exit code.
    pub(crate) async fn terminate(mut self) -> Option<i32> {
        send(&self.child, Signal::TERM);
        exit_code(&mut self.child).await
    }
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The exit code of a server that is on its way out; none if a signal ended it.
pub(crate) async fn exit_code(child: &mut Child) -> Option<i32> {
    let ended = tokio::time::timeout(Duration::from_secs(40), child.wait()).await;
    ended.expect("the server ends").unwrap().code()
}

pub(crate) fn server_file(data_dir: &Path) -> Option<ServerFile> {
    serde_json::from_str(&std::fs::read_to_string(data_dir.join("server.json")).ok()?).ok()
}

/// All servers of one directory write to one log.
fn log_file(directory: &TempDir) -> std::fs::File {
    let path = directory.path().join("server.log");
    std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap()
}
