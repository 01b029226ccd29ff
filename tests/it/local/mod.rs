//! The embedded Coder: as recorded, under load, under faults, over crashes, and below a fleet.

mod app_proxy;
mod cancels;
mod clean_stop;
mod crashes;
mod faults;
mod full_disk;
mod here;
mod isolation;
mod kill_sweep;
mod load;
mod moments;
mod private_repositories;
mod recordings;
mod recovery;
mod refusals;
mod setup;
mod streams;
mod up;
mod versions;
