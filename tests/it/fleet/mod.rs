//! Use cases on a Coder stub: what a caller asks for is what Coder and the record show in the end.

mod adoption;
mod creation;
mod faults;
mod life_cycle;
mod outage;
mod scale;
mod status;
mod waiting;
