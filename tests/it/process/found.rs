//! Which processes belong to a run: one table, for the search of this program and for that of the scripts in workspaces.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use fleet_mcp::process::{Marker, find};
use rustix::process::{Pid, Signal, kill_process_group};
use uuid::Uuid;

const KEY: &str = "FLEET_EXEC";
const SCRIPTS: &str = concat!(
    include_str!("../../../src/coder/exec/script/search.sh"),
    include_str!("../../../src/coder/exec/script/end.sh")
);

/// How a process is started, which prints its pid; and whether the program finds it, and the scripts do.
struct Case {
    name: &'static str,
    script: &'static str,
    by_program: bool,
    by_scripts: bool,
}

const fn case(name: &'static str, script: &'static str, by_program: bool, by_scripts: bool) -> Case {
    Case { name, script, by_program, by_scripts }
}

const CASES: [Case; 6] = [
    case("it carries the marker", "echo $$; exec sleep 60", true, true),
    case("it has a session of its own", "exec setsid sh -c 'echo $$; exec sleep 60'", true, true),
    case("its parent carries the marker", "env -i sh -c 'echo $$; exec sleep 60'; true", true, true),
    case("it carries another marker", "FLEET_EXEC=other exec sh -c 'echo $$; exec sleep 60'", false, false),
    case("it carries none", "exec env -i sh -c 'echo $$; exec sleep 60'", false, false),
    // The scripts end the group of the main process without a search.
    case(
        "the leader of its group carries the marker",
        "(env -i sh -c 'echo $$; exec sleep 60' &); exec sleep 60",
        true,
        false,
    ),
];

fn found_by_scripts(id: &str) -> Vec<u32> {
    let script = format!("{SCRIPTS}\nseek {KEY}={id}\nmembers\necho $found");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    found.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Waits until the process has become what it is to be.
fn is_settled(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"sleep\n")
}

#[test]
fn the_program_and_the_scripts_find_the_same_processes_of_a_run() {
    for Case { name, script, by_program, by_scripts } in CASES {
        let id = Uuid::now_v7().to_string();
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(KEY, &id).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid: u32 = line.trim().parse().unwrap();
        while !is_settled(pid) {
            std::thread::yield_now();
        }
        let program = find(&Marker { key: KEY.to_owned(), value: id.clone() }).unwrap();
        let is_found =
            (program.iter().any(|process| process.pid == pid), found_by_scripts(&id).contains(&pid));
        for group in [child.id(), pid] {
            // A process that leads no group of its own went with the first one.
            let _gone = kill_process_group(Pid::from_raw(group.cast_signed()).unwrap(), Signal::KILL);
        }
        child.wait().unwrap();
        assert_eq!(is_found, (by_program, by_scripts), "{name}");
    }
}
