//! The doctor reads the database's files inside the server, whose locks on them must outlive that.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::harness::{Program, Up};

/// The locks that a process holds on a file.
fn n_locks(pid: u32, file: &Path) -> usize {
    let (pid, inode) = (pid.to_string(), format!(":{}", std::fs::metadata(file).unwrap().ino()));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let is_held = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"POSIX") && words.contains(&pid.as_str()) && words[5].ends_with(&inode)
    };
    locks.lines().filter(is_held).count()
}

#[tokio::test]
async fn the_doctor_leaves_the_server_its_locks_on_the_database() {
    let program = Program::without_coder();
    let up = Up::start(&program).await;
    let pid = up.child.id().unwrap();
    let files = ["fleet.db", "fleet.db-shm"].map(|name| program.data_dir().join(name));
    let is_held = || files.each_ref().map(|file| n_locks(pid, file) > 0);
    assert_eq!(is_held(), [true, true], "SQLite holds both for as long as it is open");
    for _ in 0..2 {
        up.get("/api/v1/doctor").await;
        assert_eq!(is_held(), [true, true], "else another process takes the database for its own");
    }
}
