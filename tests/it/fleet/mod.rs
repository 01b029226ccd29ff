//! Use cases on a Coder stub: what a caller asks for is what Coder and the record show in the end.

mod adoption;
mod cancel;
mod creation;
mod deletes;
mod faults;
mod floods;
mod life_cycle;
mod limited;
mod outage;
mod repairs;
mod scale;
mod status;
mod versions;
mod waiting;
