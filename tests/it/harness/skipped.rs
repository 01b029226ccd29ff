//! The one way to leave out a test or a part of one: loudly.

use std::io::Write;

/// Written past the test runner, which keeps what a passing test prints to itself.
pub(crate) fn skipped(why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {why}").expect("stderr takes it");
}
