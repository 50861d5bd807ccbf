"""MCP tools, one file per kind; independent of the protocol."""
