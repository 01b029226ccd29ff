//! Hooks for tests: named points at which the process kills itself or panics once, and shorter time limits. Without the
//! feature `test-hooks` they do nothing.

#[cfg(feature = "test-hooks")]
use std::num::NonZeroU8;
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

/// The variable with which a test divides the limits of a program and of the runners that it starts.
#[cfg(feature = "test-hooks")]
const LIMITS_DIVISOR: &str = "FLEET_LIMITS_DIVISOR";

/// All limits of this process are divided by this.
#[cfg(feature = "test-hooks")]
pub fn limits_divisor() -> u8 {
    let wanted = std::env::var(LIMITS_DIVISOR).ok().and_then(|wanted| wanted.parse::<NonZeroU8>().ok());
    wanted.map_or(1, NonZeroU8::get)
}

#[cfg(not(feature = "test-hooks"))]
pub fn limits_divisor() -> u8 {
    1
}

/// The same variable for the environment of a runner, which inherits none by itself.
#[cfg(feature = "test-hooks")]
pub(crate) fn limits_variable() -> Option<(String, String)> {
    Some((LIMITS_DIVISOR.to_owned(), std::env::var(LIMITS_DIVISOR).ok()?))
}

#[cfg(not(feature = "test-hooks"))]
pub(crate) fn limits_variable() -> Option<(String, String)> {
    None
}

#[cfg(not(feature = "test-hooks"))]
#[inline(always)]
pub(crate) fn point(_name: &str) {}
