//! Checks the test harness itself: the Coder stub against the recordings, and the fault proxy.

mod app_proxy;
mod life_cycle;
mod proxy;
mod recordings;
pub(crate) mod shape;
mod streams;
