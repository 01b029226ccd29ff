//! The MCP surface as clients meet it: over HTTP and stdio, in both protocol eras.

mod answers;
mod arguments;
mod bodies;
mod bridge;
mod client;
mod errors;
mod gate;
mod instructions;
mod lengths;
mod results;
mod server;
mod tool_list;
mod transcript;
mod vocabularies;
mod waiting;

use serde_json::Value;

/// Compares with the stored snapshot; what differs from run to run is named instead of shown.
fn assert_snapshot(name: &str, value: &Value) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[id]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "[time]");
    settings.add_filter(r"http://127\.0\.0\.1:\d+", "http://[host]");
    settings.add_filter("\"cursor\": \"\\d+\"", "\"cursor\": \"[cursor]\"");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_json_snapshot!(name, value));
}
