//! The MCP surface: tools, resources, transport.
