//! Checks the test harness itself: the Coder stub against the recordings, and every fault.

mod app_proxy;
mod controls;
mod faults;
mod life_cycle;
mod proxy;
mod recordings;
pub(crate) mod shape;
mod streams;
