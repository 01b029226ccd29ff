//! Compares the fleet with what it is built on, as ratios in one run: `cargo bench`, or `cargo bench -- exec squads`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that fails should stop at once"
)]
#![expect(clippy::print_stdout, reason = "the figures are its result")]
#![expect(dead_code, unused_imports, reason = "the harness has more than a benchmark needs")]

mod exec;
mod fleet;
#[path = "../tests/it/harness/mod.rs"]
mod harness;
mod history;
mod measure;
mod squads;

use measure::Extent;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes no such flag: then one quick round shows that each benchmark still runs.
    let extent = if words.iter().any(|word| word == "--bench") { Extent::Whole } else { Extent::Quick };
    let names: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| names.is_empty() || names.contains(&name);
    if is_wanted("history") {
        history::run(extent).await;
    }
    if is_wanted("fleet") {
        fleet::run(extent).await;
    }
    if is_wanted("exec") {
        exec::run(extent).await;
    }
    if is_wanted("squads") {
        squads::run(extent).await;
    }
}
