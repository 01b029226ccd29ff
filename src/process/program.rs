//! Finds programs that run in a directory.

use std::path::Path;
use std::{fs, io};

use super::stat::Listing;

/// Whether a process whose program's name has this prefix works in one of these directories or below.
pub(crate) fn runs_in(program: &str, directories: &[&Path]) -> io::Result<bool> {
    let running = Listing::read()?.running.into_iter();
    let mut pids = running.map(|stat| stat.pid);
    Ok(pids.any(|pid| is_called(pid, program) && works_in(pid, directories)))
}

/// Whether no other process runs in our PID namespace. Some may be children of outside processes, so only `/proc`
/// lists all of them.
pub(crate) fn is_alone() -> io::Result<bool> {
    Ok(Listing::read()?.running.iter().all(|stat| stat.pid == std::process::id()))
}

fn is_called(pid: u32, program: &str) -> bool {
    fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(program.as_bytes()))
}

fn works_in(pid: u32, directories: &[&Path]) -> bool {
    let is_there = |cwd: &Path| directories.iter().any(|directory| cwd.starts_with(directory));
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| is_there(&cwd))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_is_found_where_it_works_and_only_there() {
        let directory = tempfile::tempdir().unwrap();
        let (at, beside) = (directory.path().join("a"), directory.path().join("b"));
        fs::create_dir_all(at.join("below")).unwrap();
        let mut cat = Command::new("cat");
        let mut cat = cat.current_dir(at.join("below")).stdin(Stdio::piped()).spawn().unwrap();
        let found = [("cat", &at), ("dog", &at), ("cat", &beside)]
            .map(|(program, directory)| runs_in(program, &[directory]).unwrap());
        cat.kill().unwrap();
        cat.wait().unwrap();
        assert_eq!(found, [true, false, false]);
    }
}
