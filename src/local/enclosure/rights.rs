//! The rights that build the walls: to mount, which must not be left behind them, and to trace what builds them.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What it takes to mount, and to give that up.
const MOUNTING: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP];

/// Lets the next program that we start mount: the first process of a PID namespace is the only one that can mount its
/// `/proc`.
pub(super) fn pass_on_mounting() -> io::Result<()> {
    let mut ours = capabilities(None)?;
    ours.inheritable |= MOUNTING.into_iter().collect();
    set_capabilities(None, ours)?;
    for capability in MOUNTING {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// A process that may mount may also unmount. A program that makes users of its own behind our walls gets this right
/// back for its own mounts alone: those it finds are locked for it.
pub(super) fn give_up_mounting() -> io::Result<()> {
    clear_ambient_capability_set()?;
    remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN)?;
    let mut ours = capabilities(None)?;
    ours.effective.remove(CapabilitySet::SYS_ADMIN);
    ours.permitted.remove(CapabilitySet::SYS_ADMIN);
    ours.inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, ours)?)
}

/// Keeps processes inside from tracing this one and from reading its memory, which a child shares until it becomes
/// another program. Ends with the next program that this process becomes. Other processes of a plain user can no longer
/// read its environment either, so that the process by which a workspace is found must not call this.
pub(super) fn forbid_tracing() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
