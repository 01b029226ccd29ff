//! Named points for fault tests; without the feature `test-hooks` they are nothing at all.

#[cfg(feature = "test-hooks")]
use std::sync::atomic::{AtomicBool, Ordering};

/// Dies here, as `kill -9` would, or panics here the first time, if the test asked for this point.
#[cfg(feature = "test-hooks")]
#[expect(clippy::panic, reason = "a test asked for it")]
pub(crate) fn point(name: &str) {
    static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
    let is_wanted = |variable: &str| std::env::var(variable).is_ok_and(|wanted| wanted == name);
    if is_wanted("FLEET_KILL_POINT") {
        let own = rustix::process::getpid();
        // Nothing of ours runs after this, destructors included.
        let _killed = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
    if is_wanted("FLEET_PANIC_POINT") && !HAS_PANICKED.swap(true, Ordering::SeqCst) {
        panic!("a test asked for a panic at {name}");
    }
}

#[cfg(not(feature = "test-hooks"))]
#[inline(always)]
pub(crate) fn point(_name: &str) {}
