//! The embedded Coder: as recorded, under load, under faults, over crashes, and below a fleet.

mod app_proxy;
mod cancels;
mod clean_stop;
mod crashes;
mod earlier_layout;
mod engines;
mod faults;
mod full_disk;
mod git_figures;
mod git_programs;
mod here;
mod isolation;
mod kill_sweep;
mod load;
mod moments;
mod private_repositories;
mod pruning;
mod published;
mod pull_requests;
mod recordings;
mod recovery;
mod ref_locks;
mod refusals;
#[cfg(feature = "test-hooks")]
mod repeats;
mod respawns;
mod reused_names;
mod setup;
mod spending;
mod streams;
mod up;
mod versions;
