//! Writes programs that tests run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Leaves this text at `path` as a program.
///
/// Another process writes it: a test in another thread that forks meanwhile would inherit our open file and
/// hold it until its own exec, and the kernel refuses to run a file that a process may still write to.
pub(crate) fn script(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success(), "{} is written", path.display());
}
