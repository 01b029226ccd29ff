//! What becomes of an agent's unpushed work when the agent is deleted.

mod corners;
mod crashes;
mod listing;
mod odd_bytes;
mod restoring;
mod saving;

use std::path::Path;

/// Real git, as the people use it; returns what it printed.
fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    command.current_dir(directory).args(["-c", "user.name=Tester", "-c", "user.email=tester@localhost"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A commit, a change to it that is not committed, a new file, one that is staged, and one that is ignored.
fn make_work(repository: &Path) {
    let write = |name: &str, text: &str| std::fs::write(repository.join(name), text).unwrap();
    write("committed.txt", "first\n");
    write(".gitignore", "*.log\n");
    git(repository, &["add", "."]);
    git(repository, &["commit", "--quiet", "-m", "Work that was never pushed"]);
    write("committed.txt", "first\nsecond\n");
    write("untracked.txt", "new\n");
    write("noise.log", "not worth keeping\n");
    std::fs::write(repository.join("staged.bin"), [0, 159, 146, 150, 10, 13]).unwrap();
    git(repository, &["add", "staged.bin"]);
}
