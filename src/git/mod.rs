//! Git on this machine, for the runner and the embedded Coder alike.

pub(crate) mod lock;
