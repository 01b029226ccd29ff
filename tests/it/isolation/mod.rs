//! Hostile agents: each play runs a script inside a real embedded agent, as root and as a plain user.
//!
//! ```ignore
//! as_each_user(async |program| {
//!     let up = Up::start(&program).await;
//!     up.agent("mallory").await;
//!     up.exec("mallory", "ln -s ../../../operator.token \"$FLEET_AGENT_DIR/metadata/fleet_mcp_x\"").await;
//!     assert_eq!(up.show("mallory").await["metadata"], json!({}));
//! })
//! .await;
//! ```

mod aliases;
mod bounds;
mod files;
mod git;
mod hanging;
mod hiding;
mod locked_memory;
mod machine;
mod processes;
mod scaffold;

/// The most memory that a process has had at once, in kB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}
