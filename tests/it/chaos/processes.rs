//! The processes of one data directory, as the kernel shows them.

use std::path::Path;
use std::time::{Duration, Instant};

/// A process that belongs to the data directory, by its environment or its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) kind: Kind,
    /// The id of the workspace that its environment names, or that it joined.
    pub(super) workspace: Option<String>,
    pub(super) arguments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Server,
    Runner,
    Engine,
    Other,
}

/// All of them, zombies left out: what has died is no orphan.
pub(super) fn processes(directory: &Path) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| process(directory, pid)).collect()
}

/// Those that are still there after a while: what the server runs for a moment is no orphan, and neither is a child
/// that it has forked and that has not become its command yet.
pub(super) fn lasting(suspects: Vec<Process>) -> Vec<Process> {
    let begun: Vec<Option<String>> = suspects.iter().map(|process| start_time(process.pid)).collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    let is_there =
        |(process, begun): &(Process, Option<String>)| begun.is_some() && start_time(process.pid) == *begun;
    let mut left: Vec<_> = suspects.into_iter().zip(begun).filter(is_there).collect();
    while !left.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
        left.retain(is_there);
    }
    left.into_iter().map(|(process, _)| process).collect()
}

/// None once the process has died.
fn start_time(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    if words.next()? == "Z" {
        return None;
    }
    words.nth(18).map(str::to_owned)
}

fn process(directory: &Path, pid: u32) -> Option<Process> {
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let (line, environment) = (read("cmdline"), read("environ"));
    let place = directory.to_str()?;
    let is_named = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(place);
    if pid == std::process::id() || !(is_named(&environment) || is_named(&line)) {
        return None;
    }
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    // Only root can read the environment of a process that forbids tracing, as one that joins a workspace does.
    let workspace = workspace_in(&environment).or_else(|| {
        let joined = words.iter().skip_while(|word| **word != b"--join").nth(1)?;
        workspace_of_owner(std::str::from_utf8(joined).ok()?)
    });
    let has = |word: &str| words.contains(&word.as_bytes());
    let kind = match &workspace {
        None if has("up") => Kind::Server,
        // What encloses a runner has its words behind others of its own.
        Some(_) if words.get(1) == Some(&&b"agent"[..]) => Kind::Runner,
        Some(_) if has("demo-engine") || is_script(&words) => Kind::Engine,
        None | Some(_) => Kind::Other,
    };
    let arguments = words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
    Some(Process { pid, kind, workspace, arguments })
}

fn workspace_in(environment: &[u8]) -> Option<String> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(b"FLEET_WORKSPACE="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The workspace of the process with this pid and start time, as long as that process lives.
fn workspace_of_owner(owner: &str) -> Option<String> {
    let (pid, begun) = owner.split_once(':')?;
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    (start_time(pid.parse().ok()?)? == begun).then(|| workspace_in(&environment))?
}

fn is_script(words: &[&[u8]]) -> bool {
    words.iter().any(|word| word.ends_with(b"/engine.sh"))
}
