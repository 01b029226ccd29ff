//! Who an agent is: what it is given at each start, what its token is good for and for how long, and what it never sees.

mod dump;
mod lapse;
mod provisioning;
mod tokens;
