//! Outward shapes shared by MCP, REST and `--json` output.
