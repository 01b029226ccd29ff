//! Capabilities for setting up the enclosure: to mount, which must be dropped afterwards, and protection from
//! tracing.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// The capabilities for mounting and for dropping them.
const MOUNTING: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP];

/// Passes the right to mount to the next program: only the init of a PID namespace can mount its `/proc`.
pub(super) fn pass_on_mounting() -> io::Result<()> {
    let mut ours = capabilities(None)?;
    ours.inheritable |= MOUNTING.into_iter().collect();
    set_capabilities(None, ours)?;
    for capability in MOUNTING {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// A process that may mount may also unmount. A program that creates a user namespace inside the enclosure regains
/// the right only for its own mounts: inherited mounts are locked.
pub(super) fn give_up_mounting() -> io::Result<()> {
    clear_ambient_capability_set()?;
    remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN)?;
    let mut ours = capabilities(None)?;
    ours.effective.remove(CapabilitySet::SYS_ADMIN);
    ours.permitted.remove(CapabilitySet::SYS_ADMIN);
    ours.inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, ours)?)
}

/// Keeps processes inside from tracing this one and from reading its memory, which a child shares until it executes
/// another program. Ends with the next exec. It also hides the environment from a plain user's processes, so a
/// process that is found by its marker must not call this.
pub(super) fn forbid_tracing() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
