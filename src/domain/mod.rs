//! Pure types and rules of the fleet: no I/O, no serde, nothing of the other layers.

pub mod access;
pub mod agent;
pub mod app;
pub mod history;
pub mod id;
pub mod log;
pub mod metadata;
pub mod name;
pub mod operation;
pub mod page;
pub mod plan;
pub mod project;
pub mod role;
pub mod run;
pub mod spec;
pub mod status;
pub mod task;
pub mod task_plan;
mod task_steps;
pub mod text;
pub mod url;
pub mod usage_limit;
pub(crate) mod word_enum;
pub mod words;
