//! The `fleet-mcp` program: parses the command line and hands over to `cli`.

fn main() {}
