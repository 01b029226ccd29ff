//! Named kill points for fault tests; without the feature `test-hooks` they are nothing at all.

/// Dies here, as `kill -9` would, if the test asked for this point.
#[cfg(feature = "test-hooks")]
pub(crate) fn point(name: &str) {
    if std::env::var("FLEET_KILL_POINT").is_ok_and(|wanted| wanted == name) {
        let own = rustix::process::getpid();
        // Nothing of ours runs after this, destructors included.
        let _killed = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "test-hooks"))]
#[inline(always)]
pub(crate) fn point(_name: &str) {}
