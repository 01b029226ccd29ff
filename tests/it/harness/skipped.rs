//! The one way to leave out a test or a part of one: loudly.

#[expect(clippy::print_stderr, reason = "what did not run must be seen")]
pub(crate) fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}
